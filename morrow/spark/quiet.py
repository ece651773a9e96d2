"""What a new session prints when it starts: nothing, by Spark's own settings of logging.

====================================================  =================================================================
Using Spark's default log4j profile                   a profile is given: ``log4j2.properties`` beside this module
Setting default log level to "WARN"                   it is that level already
WARN Utils, NativeCodeLoader, ResolveWriteToStream    these loggers begin at errors in that profile; others at warnings
WARNING: Using incubator modules                      Java is started without the module (`morrow.spark.java`)
[Stage 5:>                                  (0 + 2)   the bar of progress is drawn on terminals alone
====================================================  =================================================================
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

PROFILE = Path(__file__).with_name("log4j2.properties")
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""The setting of Spark that comes before a user's own ``spark.driver.extraJavaOptions``."""
PROGRESS = "spark.ui.showConsoleProgress"


def quiet_settings(given: Mapping[str, object]) -> dict[str, str]:
    """Returns the settings with which a new session starts silently; none in place of logging set up by the user."""
    settings = {PROGRESS: str(sys.stderr.isatty()).lower()}
    if PROFILE.is_file() and JAVA_OPTIONS not in given and not _is_set_up():
        settings[JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={PROFILE.as_uri()}"
    return settings


def _is_set_up() -> bool:
    """Returns whether the machine's settings of Spark say how to log."""
    home = os.environ.get("SPARK_HOME")
    named = os.environ.get("SPARK_CONF_DIR") or (home and Path(home) / "conf")
    if not named:
        return False
    folder = Path(named)
    defaults = folder / "spark-defaults.conf"
    return (folder / "log4j2.properties").exists() or (
        defaults.is_file() and JAVA_OPTIONS in defaults.read_text("utf-8", errors="replace")
    )
