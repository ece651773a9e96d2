"""A call of ``morrow`` builds only the commands that it names."""

from __future__ import annotations

import pytest

from morrow.cli.app import COMPLETION, app, run


@pytest.mark.parametrize(
    ("arguments", "code", "made"),
    [
        (["read", "--help"], 0, {"read"}),
        (["--warehouse", "read", "count", "-h"], 0, {"read", "count"}),
        (["read"], 2, {"read"}),
        (["-h", "read"], 0, None),
        (["raed", "t"], 2, None),
    ],
)
def test_only_commands_that_are_named_are_made(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, made: set[str] | None
) -> None:
    every = app.registered_commands
    monkeypatch.setattr(app, "registered_commands", every)
    with pytest.raises(SystemExit) as left:
        run(arguments)
    names = {each.callback.__name__ for each in app.registered_commands if each.callback}
    assert (left.value.code, names) == (code, made or {each.callback.__name__ for each in every if each.callback})


def test_completion_knows_all_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in {COMPLETION: "complete_bash", "COMP_WORDS": "morrow c", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        run(["read"])
    assert {"count", "compact"} <= set(capsys.readouterr().out.split())
