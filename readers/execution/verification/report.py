"""The result of verifying a table, file by file."""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.errors import CorruptFile, FileMissing, MorrowError

MOST_NAMED = 5
"""Further files that an error names."""


@dataclass(frozen=True)
class VerifiedFile:
    """One data file: the extent of its checks, and its problems.

    `pages` were held against their checksums (Parquet), `unchecked_pages` have none. `problems` is empty for a sound
    file; `error` is the error to raise for the first of them.
    """

    path: str
    format: str
    rows: int
    pages: int = 0
    unchecked_pages: int = 0
    problems: tuple[str, ...] = ()
    error: MorrowError | None = None

    @property
    def is_sound(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Verification:
    """All files that were verified."""

    files: tuple[VerifiedFile, ...]

    @property
    def unsound(self) -> tuple[VerifiedFile, ...]:
        """The files with problems."""
        return tuple(file for file in self.files if not file.is_sound)

    def raise_problems(self) -> None:
        """Raises the error of the first file with a problem, if there is one; the error names the others.

        Raises:
            CorruptFile, FileMissing: a file is damaged or missing. Unsupported, UnsafePath: a file cannot be read.
        """
        damaged = sorted(self.unsound, key=lambda file: not isinstance(file.error, (CorruptFile, FileMissing)))
        if not damaged:
            return
        first, *others = damaged
        assert first.error is not None
        if others and isinstance(first.error, CorruptFile):
            names = ", ".join(file.path for file in others[:MOST_NAMED])
            more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
            raise CorruptFile(first.path, f"{first.problems[0]} (damaged as well: {names}{more})") from first.error
        raise first.error

    def __str__(self) -> str:
        pages = sum(file.pages for file in self.files)
        unchecked = sum(file.unchecked_pages for file in self.files)
        lines = [f"{file.path}: {problem}" for file in self.unsound for problem in file.problems]
        without = f", {unchecked:,} without a checksum" if unchecked else ""
        return "\n".join(
            [f"{len(self.files):,} files, {len(self.unsound):,} unsound; {pages:,} pages hashed{without}", *lines]
        )
