"""Files on web servers that lack ranges, sizes or versions, redirect, fail or send HTML pages."""

import os

import pytest
from reading import data_error

from penstock.components.files import retry
from penstock.components.sources.open import open_source

ROWS = [[i, i * i] for i in range(1000)]
CSV = b"id,n\n" + b"".join(b"%d,%d\n" % tuple(row) for row in ROWS)


@pytest.fixture(autouse=True)
def file(web):
    web.files["/a.csv"] = CSV


@pytest.mark.parametrize(
    "ways",
    [{"etag"}, set(), {"chunked"}, {"no head", "etag"}, {"no head", "chunked"}],
)
def test_servers_differ(web, read_out, ways):
    web.ways = ways
    source = open_source(f"{web.address}/a.csv")
    assert read_out(source, parts=3).rows == ROWS
    assert source.files == (f"{web.address}/a.csv",)


@pytest.mark.parametrize("fault", ["503", "reset", "break", "stall"])
def test_a_fault_is_survived_a_few_times_and_then_named(web, read_out, fault):
    web.faults += [fault, fault]
    assert read_out(open_source(f"{web.address}/a.csv")).rows == ROWS
    assert web.faults == []
    web.files["/b.csv"] = CSV
    web.faults += [fault] * 100
    message = data_error(lambda: open_source(f"{web.address}/b.csv"))
    assert message.startswith(f"{web.address}/b.csv: cannot be read, 5 tries failed (")
    assert len(web.faults) in (90, 95)  # aiohttp retries once on a connection that it had kept open
    assert len(os.listdir(os.environ["PENSTOCK_SPOOL"])) == 1  # the copy of a.csv


@pytest.mark.parametrize("ways", [{"no length"}, {"no length", "no head", "etag"}])
@pytest.mark.parametrize("fault", [[], ["break"]])
def test_what_may_break_off_unnoticed_is_refused(web, ways, fault):
    web.ways = ways
    web.faults += fault
    assert data_error(lambda: open_source(f"{web.address}/a.csv")) == (
        f"{web.address}/a.csv: the server tells neither a length nor the end, so that nothing "
        "tells whether a copy is whole; copy it by hand"
    )


def test_what_another_try_does_not_mend_is_told_at_once(web):
    assert data_error(lambda: open_source(f"{web.address}/none.csv")) == (
        f"{web.address}/none.csv: no such file or folder"
    )
    web.statuses["/a.csv"] = 403
    message = data_error(lambda: open_source(f"{web.address}/a.csv"))
    assert message.startswith(f"{web.address}/a.csv: permission denied (403, message='Forbidden'")
    web.statuses["/a.csv"] = 400
    message = data_error(lambda: open_source(f"{web.address}/a.csv"))
    assert message.startswith(f"{web.address}/a.csv: cannot be read (400, message='Bad Request'")
    assert len(web.asked) == 6  # a HEAD and a GET for each call


def test_a_redirect_is_followed_and_its_signature_not_told(web, read_out):
    web.redirects["/latest"] = "/a.csv?X-Amz-Signature=signed-3f9c"
    assert read_out(open_source(f"{web.address}/latest")).rows == ROWS
    web.statuses["/a.csv"] = 403
    message = data_error(lambda: open_source(f"{web.address}/latest"))
    assert "permission denied" in message
    assert "a.csv?***" in message
    assert "3f9c" not in message


def test_a_web_page_is_no_data(web):
    web.ways |= {"page"}
    assert data_error(lambda: open_source(f"{web.address}/a.csv")) == (
        f"{web.address}/a.csv: the server answers with a web page (text/html), expected a file of "
        "data; name the address that downloads the file"
    )


def test_a_file_that_changes_while_it_is_copied(web):
    class Changing(web.RequestHandlerClass):
        def answer(self):
            answer = super().answer()
            if self.command == "GET":
                web.files["/a.csv"] = CSV.replace(b"10,100", b"10,999")
            return answer

    web.RequestHandlerClass = Changing
    message = data_error(lambda: open_source(f"{web.address}/a.csv"))
    assert message.startswith(f"{web.address}/a.csv: was changed since it was listed (")


def test_a_server_that_is_not_there(monkeypatch):
    monkeypatch.setattr(retry, "WAIT_SECONDS", (0.05,))
    message = data_error(lambda: open_source("http://127.0.0.1:9/a.csv"))
    assert message.startswith("http://127.0.0.1:9/a.csv: cannot be read, 2 tries failed (")


def test_a_login_of_netrc(web, tmp_path, monkeypatch, read_out):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password pw-3f9c\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    seen = []
    handler = web.RequestHandlerClass

    class Watched(handler):
        def answer(self):
            seen.append(self.headers.get("Authorization"))
            return super().answer()

    web.RequestHandlerClass = Watched
    assert read_out(open_source(f"{web.address}/a.csv")).rows == ROWS
    assert set(seen) == {"Basic bWU6cHctM2Y5Yw=="}
