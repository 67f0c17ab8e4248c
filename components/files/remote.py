"""Files at addresses: `s3://`, `gs://`, `hdfs://`, `http(s)://`, found and listed.

Flows in: an address, a folder of addresses or a glob. Flows out: `RemoteFile`s, which go wherever
a path goes: `open_data` reads those of stores part by part (`remote_range.py`), and others, or for
readers that want a path, as whole copies on the local disk (`spool.py`).
"""

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from penstock.components.errors import DataError, UsageError
from penstock.components.files.address import FILE_SCHEMES, check_no_secret, masked, scheme_of
from penstock.components.files.remote_system import file_system
from penstock.components.files.retry import LOGIN_ADVICE, NotThereError, retry_remote

# What clients call what changes with the content, the surest first.
_VERSION_KEYS = ("generation", "ETag", "etag", "Last-Modified", "LastModified", "mtime")
# Of these stores it changes whenever an object is written. The ETag of a web server is often no
# more than size and time in seconds, and HDFS has only the time.
_SURE_SCHEMES = ("s3", "gs")
_WEB_SCHEMES = ("http", "https")

T = TypeVar("T")


class RemoteFile(str):
    """The address of a file, in the state in which it was listed.

    Attributes:
        size: Its size in bytes; None where the server does not say.
        version: ETag, generation or time of change: what changes with the content; None where
            the server says none of them.
    """

    size: int | None
    version: str | None

    def __new__(cls, address: str, size: int | None, version: str | None) -> "RemoteFile":
        """See the class."""
        self = super().__new__(cls, address)
        self.size, self.version = size, version
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFile, (str(self), self.size, self.version)

    @property
    def sure_version(self) -> str | None:
        """The version where no two contents can have the same, else None."""
        return self.version if scheme_of(self) in _SURE_SCHEMES else None


def is_remote(path: str) -> bool:
    """Whether it is the address of files.

    Raises:
        UsageError: It is an address that no files are read from, or has a secret in it.
    """
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
    """Whether it is an address of a store that gives any part of a file, of a version only.

    Raises:
        UsageError: As of `is_remote`.
    """
    return is_remote(path) and scheme_of(path) in _SURE_SCHEMES


def find_files(pattern: str) -> tuple[list[RemoteFile], bool]:
    """The files that an address means, by name, and whether it is that of one file.

    Args:
        pattern: A file, a folder (not recursive) or a glob; of http(s) only a file.

    Raises:
        DataError: The server cannot be asked, or has no such thing.
        UsageError: What reads it is not installed.
    """
    pattern = normal_address(pattern)
    if has_glob(pattern):
        try:
            info = ask(pattern, "info")  # a name may have any character
        except NotThereError:
            found = ask(pattern, "glob", detail=True)
            return _files(pattern, found.values()), False
    else:
        info = ask(pattern, "info")
    if info["type"] == "directory":
        return _files(pattern, ask(pattern, "ls", detail=True)), False
    if scheme_of(pattern) in _WEB_SCHEMES:
        _refuse_page(pattern, info)
    return [_file(pattern, info)], True


def find_matches(pattern: str) -> list[RemoteFile]:
    """The files that a glob gives, and all those below folders that it gives, by name.

    Raises:
        DataError: The server cannot be asked.
        UsageError: What reads it is not installed.
    """
    pattern = normal_address(pattern)
    given = list(ask(pattern, "glob", detail=True).values())
    files = set(_files(pattern, given))
    walked: tuple[str, ...] = ()
    for folder in sorted(_address(pattern, i).rstrip("/") for i in given if i["type"] != "file"):
        if not folder.startswith(walked):  # `**` gives also the folders in a folder that it gives
            walked = (*walked, f"{folder}/")
            files.update(find_below(folder))
    return sorted(files)


def find_names(pattern: str) -> list[str]:
    """The addresses of the files and folders that a glob gives, by name.

    Raises:
        DataError: The server cannot be asked.
        UsageError: What reads it is not installed.
    """
    pattern = normal_address(pattern)
    given = ask(pattern, "glob", detail=True).values()
    return sorted(_address(pattern, info).rstrip("/") for info in given)


def list_folder(address: str) -> tuple[list[RemoteFile], list[str]]:
    """The files of a folder, and the names of the folders in it.

    Raises:
        DataError: The server cannot be asked, or has no such thing, or it is a file.
        UsageError: What reads it is not installed.
    """
    address = normal_address(address)
    if ask(address, "info")["type"] != "directory":
        raise DataError(f"{address}: is a file, expected a folder")
    entries = ask(address, "ls", detail=True)
    folders = [entry["name"] for entry in entries if entry["type"] == "directory"]
    return _files(address, entries), sorted(os.path.basename(f.rstrip("/")) for f in folders)


def find_below(folder: str) -> list[RemoteFile]:
    """All files below a folder, by name.

    Raises:
        DataError: The server cannot be asked.
        UsageError: What reads it is not installed.
    """
    folder = normal_address(folder)
    return _files(folder, ask(folder, "find", detail=True).values())


def remote_file(address: str) -> RemoteFile:
    """The file at an address, in its present state.

    Raises:
        DataError: The server cannot be asked, or has no such file.
        UsageError: What reads it is not installed.
    """
    files, is_one = find_files(address)
    if not is_one:
        raise DataError(f"{address}: is not one file, expected one")
    return files[0]


def require_unchanged(file: RemoteFile) -> None:
    """Refuse a file that is in another state than when it was listed.

    Raises:
        DataError: It is; says both states. Or it cannot be asked for.
    """
    now = _file(file, ask(file, "info"))
    if (now.size, now.version) != (file.size, file.version):
        raise DataError(
            f"{file}: was changed since it was listed ({file.size} bytes, version {file.version}; "
            f"now {now.size} bytes, version {now.version}); start again"
        )


def has_glob(pattern: str) -> bool:
    """Whether it stands for several files; in http a question mark begins a query."""
    return scheme_of(pattern) not in _WEB_SCHEMES and any(c in pattern for c in "*?[")


def normal_address(address: str) -> str:
    """The address with its scheme as the clients know it."""
    return f"{scheme_of(address)}://{address.partition('://')[2]}"


def ask(address: str, method: str, *arguments: Any, **named: Any) -> Any:
    """What the fsspec file system says to a call with an address.

    Raises:
        DataError: The server cannot be asked, or has no such thing.
        UsageError: What reads it is not installed.
    """
    call: Callable[..., Any] = getattr(file_system(address), method)
    return retry_remote(address, lambda: call(str(address), *arguments, **named))


def _files(pattern: str, infos: Iterable[dict[str, Any]]) -> list[RemoteFile]:
    found = [
        _file(_address(pattern, info), info)
        for info in infos
        # A marker of a folder is an object of no bytes whose name ends in a slash.
        if info["type"] == "file" and not info["name"].endswith("/")
    ]
    return sorted(found)


def _address(pattern: str, info: dict[str, Any]) -> str:
    """Where something is that was found by `pattern`."""
    scheme, _, rest = pattern.partition("://")
    # Clients leave out of a name what chose them: of hdfs that is also the name node.
    place = rest.partition("/")[0] if scheme == "hdfs" else ""
    return f"{scheme}://{place}{file_system(pattern)._strip_protocol(info['name'])}"


def _file(address: str, info: dict[str, Any]) -> RemoteFile:
    version = next((str(info[key]) for key in _VERSION_KEYS if info.get(key)), None)
    return RemoteFile(str(address), info.get("size"), version)


def _refuse_page(address: str, info: dict[str, Any]) -> None:
    """Refuse what a person is shown instead of the data: a login, an index, an error."""
    name = address.partition("?")[0].lower()
    if info.get("mimetype") == "text/html" and not name.endswith((".html", ".htm")):
        raise DataError(
            f"{address}: the server answers with a web page (text/html), expected a file of data; "
            "name the address that downloads the file"
        )
