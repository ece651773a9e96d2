"""Names ``db.table`` with --warehouse, MORROW_WAREHOUSE and profiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run

Table = Callable[[str], Path]


def test_a_table_has_a_name_where_a_warehouse_is_known(
    run: Run, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = table("tags_expired_snapshots").parent.parent
    profiles = tmp_path / "profiles.toml"
    profiles.write_text(f'[default]\nwarehouse = "{warehouse}"\n[bad]\nkey = 1\n[text]\nallowed_roots = "x"\n')
    monkeypatch.setenv("MORROW_PROFILES", str(profiles))

    by_profile = run("tags", "db.t", "--format", "csv")
    assert by_profile.lines[1].startswith("t1,")
    assert run("sql", "SELECT count(*) AS n FROM db.t", "--format", "csv").lines[0] == "n"

    monkeypatch.setenv("MORROW_PROFILES", str(tmp_path / "none.toml"))
    assert "--warehouse, MORROW_WAREHOUSE" in run("tags", "db.t").err
    assert run("tags", "db.t", "--format", "csv", "--warehouse", warehouse) == by_profile
    assert run("--warehouse", warehouse, "tags", "db.t", "--format", "csv") == by_profile
    monkeypatch.setenv("MORROW_WAREHOUSE", str(warehouse))
    assert run("tags", "db.t", "--format", "csv") == by_profile
    assert run("read", "db.t$tags", "-c", "tag_name", "-f", "csv").lines == ["tag_name", "t1", "t2"]
    assert "there is no table 'db.no'" in run("tags", "db.no").err
    assert run("tags", "./db.t").code == 1  # a path, whatever the warehouse is


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nobody", "no profile 'nobody'"),
        ("bad", "unknown option 'key'"),
        ("text", "a list of texts"),
        ("flat", "is not a table"),
    ],
)
def test_profiles_that_are_wrong_are_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    profiles = tmp_path / "profiles.toml"
    profiles.write_text('flat = 1\n[bad]\nkey = 1\n[text]\nallowed_roots = "x"\n')
    monkeypatch.setenv("MORROW_PROFILES", str(profiles))

    done = run("--profile", name, "tags", "db.t")

    assert done.code == 1
    assert text in done.err


def test_a_profile_without_a_file_of_profiles(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MORROW_PROFILES", str(tmp_path / "none.toml"))
    done = run("--profile", "prod", "tags", "db.t")
    assert done.code == 1
    assert "there is no profile 'prod', since there is no" in done.err
    assert "MORROW_PROFILES names another file" in done.err


def test_names_are_of_the_catalog_that_options_profiles_and_the_environment_describe(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, warehouse = f"jdbc:sqlite:{tmp_path}/c.db", f"{tmp_path}/wh"
    told = ("--catalog", "metastore=jdbc", "--catalog", f"uri={uri}", "--catalog", f"warehouse={warehouse}")
    assert run(*told, "create", "db.t", "id INT").code == 0
    assert run(*told, "ls", "--format", "csv").lines == ["database,table", "db,t"]
    assert run("ls", warehouse, "--format", "csv").lines == ["database,table", "db,t"]

    profiles = tmp_path / "profiles.toml"
    profiles.write_text(f'[jdbc]\nmetastore = "jdbc"\nuri = "{uri}"\nlock.enabled = true\ntable-default.bucket = 3\n')
    monkeypatch.setenv("MORROW_PROFILES", str(profiles))
    monkeypatch.setenv("MORROW_CATALOG_WAREHOUSE", warehouse)
    monkeypatch.setenv("MORROW_CATALOG_LOCK_ACQUIRE_TIMEOUT", "5 s")
    assert run("--profile", "jdbc", "sql", "FROM sys.catalog_options ORDER BY key", "-f", "csv").lines[1:] == [
        "lock-acquire-timeout,5 s",
        "lock.enabled,true",
        "metastore,jdbc",
        "table-default.bucket,3",
        f"uri,{uri}",
        f"warehouse,{warehouse}",
    ]
    assert "unknown option 'lock'" in run("--profile", "jdbc", "--catalog", "lock=1", "ls").err


def test_databases_have_a_comment_and_properties_where_the_catalog_keeps_them(run: Run, tmp_path: Path) -> None:
    options = ("metastore=jdbc", f"uri=jdbc:sqlite:{tmp_path}/c.db", f"warehouse={tmp_path}/w")
    named = [part for option in options for part in ("--catalog", option)]
    assert run(*named, "create", "web", "--comment", "the shop", "--set", "team=sales").out == "database web\n"
    assert run(*named, "alter", "web", "--set", "tier=1", "--unset", "team", "--dry-run").code == 0
    assert run(*named, "alter", "web", "--set", "tier=1", "--unset", "team").out == "database web altered\n"
    told = run(*named, "sql", "DESCRIBE DATABASE EXTENDED web", "--format", "csv").lines
    assert "Comment,the shop" in told and "tier,1" in told and "team,sales" not in told
    assert "no columns; nothing was changed" in run(*named, "alter", "web", "--add", "a=INT").err
    assert "there is no database 'no'" in run(*named, "alter", "no", "--set", "a=b").err
    assert "metastore=rest, jdbc or hive" in run("--warehouse", tmp_path, "create", "x", "--comment", "y").err
