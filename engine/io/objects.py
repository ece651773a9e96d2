"""Object stores (S3, GCS, Azure, HTTP, memory) as file stores, through obstore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import urlsplit

from morrow.engine.errors import FileMissing, InvalidArgument, MorrowError, StorageError
from morrow.engine.io.store import FileStatus

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Bucket

MILLIS = 1000


class ObjectStore:
    """One bucket (or container). Paths are keys without a leading slash."""

    is_local = False

    def __init__(self, bucket: Bucket, base_url: str, storage_options: Mapping[str, str]) -> None:
        self._bucket = bucket
        self._base_url = base_url.rstrip("/")
        self.storage_options: Mapping[str, str] = dict(storage_options)

    @classmethod
    def of_url(cls, url: str, storage_options: Mapping[str, str] | None) -> ObjectStore:
        """The store that serves `url`; what `storage_options` lacks comes from the environment.

        Raises:
            InvalidArgument: no store serves the scheme, or an option that it does not know.
        """
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        parts = urlsplit(url)
        base = f"{parts.scheme}://{parts.netloc}"
        options = dict(storage_options or {})
        try:
            bucket = from_url(base, config=cast(Any, options) or None)
        except (BaseError, ValueError) as error:
            raise InvalidArgument(
                f"cannot open {base}: {error}; give a path, or an s3://, gs:// or az:// URL"
            ) from error
        return cls(bucket, base, options)

    def read(self, path: str) -> bytes:
        return bytes(self._asked(path, lambda: self._bucket.get(path).bytes()))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return bytes(self._asked(path, lambda: self._bucket.get_range(path, start=start, length=length)))

    def open(self, path: str) -> BinaryIO:
        import obstore

        return cast(BinaryIO, self._asked(path, lambda: obstore.open_reader(self._bucket, path)))

    def size(self, path: str) -> int | None:
        try:
            return int(self._asked(path, lambda: self._bucket.head(path))["size"])
        except FileMissing:
            return None

    def exists(self, path: str) -> bool:
        return self.size(path) is not None

    def list(self, folder: str) -> list[FileStatus]:
        listed = self._asked(folder, lambda: self._bucket.list_with_delimiter(folder.rstrip("/") + "/"))
        files = [
            FileStatus(o["path"].rsplit("/", 1)[-1], o["size"], int(o["last_modified"].timestamp() * MILLIS))
            for o in listed["objects"]
        ]
        folders = [FileStatus(p.rstrip("/").rsplit("/", 1)[-1], 0, 0, is_dir=True) for p in listed["common_prefixes"]]
        return files + folders

    def is_dir(self, folder: str) -> bool:
        return bool(self.list(folder))

    def url(self, path: str) -> str:
        return f"{self._base_url}/{path}"

    def _asked(self, path: str, ask: Any) -> Any:
        from obstore.exceptions import BaseError

        try:
            return ask()
        except FileNotFoundError as error:
            raise FileMissing(self.url(path)) from error
        except MorrowError:
            raise
        except (BaseError, OSError) as error:
            raise StorageError(f"{self.url(path)}: {error}; check the address and the credentials") from error
