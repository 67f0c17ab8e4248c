"""Listing of files at addresses: `s3://`, `gs://`, `http(s)://`.

Input: the address of a file or a folder, or a glob of addresses. Output: `RemoteFile`s, which can
be used like paths. `open_data` reads files of object stores in parts (`remote_range.py`); files of
other servers, and files for readers that need a path, are copied to the local disk (`spool.py`).

Every function that sends requests raises a DataError if a request fails, and a UsageError if the
client for the scheme is not installed.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from penstock.components.errors import DataError, UsageError
from penstock.components.files.address import FILE_SCHEMES, check_no_secret, masked, scheme_of
from penstock.components.files.remote_system import file_system
from penstock.components.files.retry import LOGIN_ADVICE, NotThereError, retry_remote

# Keys under which clients report a value that changes with the content, most reliable first.
_VERSION_KEYS = ("generation", "ETag", "etag", "Last-Modified", "LastModified", "mtime")
# Schemes of stores in which the version of a file changes whenever its content changes. A web
# server often makes the ETag only from the file's size and its modification time in seconds.
_SURE_SCHEMES = ("s3", "gs")
_WEB_SCHEMES = ("http", "https")

T = TypeVar("T")


class RemoteFile(str):
    """Address of a file, with its size (None: unknown) and its version at the time of the listing.

    The version is an ETag, a generation or a time of change; None if the server sends nothing.
    """

    size: int | None
    version: str | None

    def __new__(cls, address: str, size: int | None, version: str | None) -> "RemoteFile":
        self = super().__new__(cls, address)
        self.size, self.version = size, version
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFile, (str(self), self.size, self.version)

    @property
    def sure_version(self) -> str | None:
        """The version if it certainly differs for different contents, otherwise None."""
        return self.version if scheme_of(self) in _SURE_SCHEMES else None


def is_remote(path: str) -> bool:
    """Returns whether a path is an address; UsageError for an unknown scheme or a secret."""
    scheme = scheme_of(path)
    if scheme is None or "://" not in path:  # a file may be called a::b.csv
        return False
    if scheme not in FILE_SCHEMES:
        raise UsageError(
            f"{masked(path)}: files are read from paths and {', '.join(FILE_SCHEMES)} addresses; "
            "mount or copy what is elsewhere; a database is read by penstock ingest --kind sql, "
            "and penstock export --to parquet makes files of it"
        )
    check_no_secret(path, LOGIN_ADVICE)
    return True


def is_read_in_parts(path: str) -> bool:
    """Returns whether a path is in a store that can serve parts of one version of a file."""
    return is_remote(path) and scheme_of(path) in _SURE_SCHEMES


def find_files(pattern: str, *, deep: bool = False) -> tuple[list[RemoteFile], bool]:
    """Returns the files at an address, sorted, and whether the address names a single file.

    The address is that of a file, a folder or a glob; for http(s) only of a file. `deep` adds the
    files in subfolders of the folder, or of folders that match the glob.
    """
    pattern = normal_address(pattern)
    try:
        info = ask(pattern, "info")
    except NotThereError:
        if not has_glob(pattern):  # a file may be named a[1]
            raise
        return _matches(pattern, deep=deep), False
    if info["type"] == "directory":
        files = find_below(pattern) if deep else _files(pattern, ask(pattern, "ls", detail=True))
        return files, False
    if scheme_of(pattern) in _WEB_SCHEMES:
        _refuse_page(pattern, info)
    return [_file(pattern, info)], True


def _matches(pattern: str, *, deep: bool) -> list[RemoteFile]:
    given = list(ask(pattern, "glob", detail=True).values())
    files, walked = set(_files(pattern, given)), tuple[str, ...]()
    folders = (_address(pattern, i).rstrip("/") for i in given if deep and i["type"] != "file")
    for folder in sorted(folders):
        if not folder.startswith(walked):  # `**` also matches folders in a matched folder
            walked = (*walked, f"{folder}/")
            files.update(find_below(folder))
    return sorted(files)


def find_names(pattern: str) -> list[str]:
    pattern = normal_address(pattern)
    given = ask(pattern, "glob", detail=True).values()
    return sorted(_address(pattern, info).rstrip("/") for info in given)


def list_folder(address: str) -> tuple[list[RemoteFile], list[str]]:
    """Returns the files and the names of the folders in a folder; DataError for a file."""
    address = normal_address(address)
    if ask(address, "info")["type"] != "directory":
        raise DataError(f"{address}: is a file, expected a folder")
    entries = ask(address, "ls", detail=True)
    folders = [entry["name"] for entry in entries if entry["type"] == "directory"]
    return _files(address, entries), sorted(os.path.basename(f.rstrip("/")) for f in folders)


def find_below(folder: str) -> list[RemoteFile]:
    folder = normal_address(folder)
    return _files(folder, ask(folder, "find", detail=True).values())


def remote_file(address: str) -> RemoteFile:
    """Returns the file at an address, in its current version."""
    files, is_one = find_files(address)
    if not is_one:
        raise DataError(f"{address}: is not one file, expected one")
    return files[0]


def require_unchanged(file: RemoteFile) -> None:
    """Raises a DataError that names both versions if a file has changed since it was listed."""
    now = _file(file, ask(file, "info"))
    if (now.size, now.version) != (file.size, file.version):
        raise DataError(
            f"{file}: was changed since it was listed ({file.size} bytes, version {file.version}; "
            f"now {now.size} bytes, version {now.version}); start again"
        )


def has_glob(pattern: str) -> bool:
    """Returns whether a path or an address is a glob.

    An http(s) address never is, because its question mark begins a query.
    """
    return scheme_of(pattern) not in _WEB_SCHEMES and any(c in pattern for c in "*?[")


def normal_address(address: str) -> str:
    """Returns the address with the scheme name that clients use (`s3` for `s3a`)."""
    return f"{scheme_of(address)}://{address.partition('://')[2]}"


def ask(address: str, method: str, *arguments: Any, **named: Any) -> Any:
    """Calls a method of the fsspec file system of an address, with retries."""
    call: Callable[..., Any] = getattr(file_system(address), method)
    return retry_remote(address, lambda: call(str(address), *arguments, **named))


def _files(pattern: str, infos: Iterable[dict[str, Any]]) -> list[RemoteFile]:
    found = [
        _file(_address(pattern, info), info)
        for info in infos
        # An empty object whose name ends with a slash stands for a folder.
        if info["type"] == "file" and not info["name"].endswith("/")
    ]
    return sorted(found)


def _address(pattern: str, info: dict[str, Any]) -> str:
    scheme = pattern.partition("://")[0]  # clients leave the scheme out of names
    return f"{scheme}://{file_system(pattern)._strip_protocol(info['name'])}"


def _file(address: str, info: dict[str, Any]) -> RemoteFile:
    version = next((str(info[key]) for key in _VERSION_KEYS if info.get(key)), None)
    return RemoteFile(str(address), info.get("size"), version)


def _refuse_page(address: str, info: dict[str, Any]) -> None:
    name = address.partition("?")[0].lower()
    if info.get("mimetype") == "text/html" and not name.endswith((".html", ".htm")):
        raise DataError(
            f"{address}: the server answers with a web page (text/html), expected a file of data; "
            "name the address that downloads the file"
        )
