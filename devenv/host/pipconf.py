"""What pip needs of this machine to reach its package index, to lend it to a pip inside another root.

Configuration files, variables, and every local file or folder that these name (certificates, wheel folders,
indexes in a folder). They are bound for the time of the installation and leave no trace in the image.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlparse

VARIABLES = ("PIP_", "SSL_CERT_", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that steer pip and how it reaches the network."""
    return {
        key: value for key, value in environ.items() if key.startswith(VARIABLES) or key.lower() in PROXIES
    }


def config_files(environ: Mapping[str, str], home: Path) -> list[Path]:
    """Returns pip's configuration files that exist, the weakest first."""
    candidates = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"), home / ".pip/pip.conf"]
    candidates.append(Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip/pip.conf")
    if extra := environ.get("PIP_CONFIG_FILE"):
        candidates.append(Path(extra))
    return [path for path in candidates if path.is_file() and path != Path(os.devnull)]


def merged_config(files: Iterable[Path]) -> str:
    """Returns one configuration file that says what all of them say."""
    parser = configparser.RawConfigParser()
    parser.read(files)
    lines: list[str] = []
    for section in parser.sections():
        lines.append(f"[{section}]")
        for key, value in parser.items(section):
            lines.append(f"{key} = " + "\n    ".join(value.splitlines()))
    return "\n".join(lines) + "\n"


def local_paths(texts: Iterable[str]) -> list[Path]:
    """Returns the files and folders of this machine that configuration values name, each once.

    An index in a folder links to files beside it, so the folder around it is meant too. Of
    two where one holds the other, the outer one is returned.
    """
    found: set[Path] = set()
    for word in re.split(r"[\s,]+", " ".join(texts)):
        index = word.startswith("file://")
        path = Path(unquote(urlparse(word).path)) if index else Path(word)
        if not path.is_absolute() or len(path.parts) <= 2 or not path.exists():
            continue
        found.add(path.parent if index and len(path.parts) > 3 else path)
    ordered = sorted(found)
    return [path for path in ordered if not any(other in path.parents for other in ordered)]
