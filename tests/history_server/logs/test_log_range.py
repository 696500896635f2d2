"""Logs by range: the end first, earlier and later parts, the whole as a download."""

import re

from flask.testing import FlaskClient

from job_writer import DONE, RUNNING, JobWriter

ADDRESS = f"/jobs/{DONE}/logs/worker_1/0/stderr"


def links(page: str) -> dict[str, str]:
    return {
        words.strip(): link.replace("&amp;", "&") for link, words in re.findall(r'href="([^"]*)">([^<]*)</a>', page)
    }


def shown(page: str) -> str:
    """The lines of the log, still escaped for HTML."""
    return "\n".join(re.findall(r'<span id="b\d+"[^>]*><a [^>]*></a>(.*?)</span>\n', page))


def test_the_end_is_shown_first_and_links_lead_through(client: FlaskClient, done: JobWriter) -> None:
    page = client.get(ADDRESS).text
    assert "Bytes 934,464 to 1,000,000 of 1,000,000" in page
    assert len(shown(page)) == 65536
    assert "Later →" not in links(page)
    earlier = client.get(links(page)["← Earlier"]).text
    assert "Bytes 868,928 to 934,464" in earlier
    assert client.get(links(earlier)["Later →"]).text == client.get(f"{ADDRESS}?offset=934464&length=65536").text
    first = client.get(links(earlier)["⇤ Beginning"]).text
    assert shown(first).startswith("0123")
    assert "← Earlier" not in links(first)
    assert client.get(links(first)["End ⇥"]).text == client.get(f"{ADDRESS}?offset=934464&length=65536").text


def test_a_part_is_bounded(client: FlaskClient, done: JobWriter) -> None:
    assert shown(client.get(f"{ADDRESS}?offset=5&length=3").text) == "567"
    assert "ends before byte 1,000,000" in client.get(f"{ADDRESS}?offset=99999999").text
    for wrong in ("length=1048577", "length=0", "offset=-1", "offset=x", "offset=1.5", "offset=999999999999999999"):
        assert client.get(f"{ADDRESS}?{wrong}").status_code == 400, wrong


def test_download_is_the_log_as_it_is(client: FlaskClient, done: JobWriter) -> None:
    with client.get(f"{ADDRESS}/download") as answer:
        assert answer.data == b"0123456789" * 100_000
    assert answer.content_type == "text/plain; charset=utf-8"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{DONE}_worker_1_0_stderr.txt"'
    with client.head(f"{ADDRESS}/download") as head:
        assert (head.status_code, head.data) == (200, b"")


def test_empty_and_absent_logs(client: FlaskClient, running: JobWriter) -> None:
    running.write_log("worker_0", 0, "stdout", b"")
    assert "This log is empty" in client.get(f"/jobs/{RUNNING}/logs/worker_0/0/stdout").text
    for address in (f"/jobs/{RUNNING}/logs/worker_0/0/stderr", f"/jobs/{DONE}/logs/worker_0/0/stderr"):
        assert client.get(address).status_code == 404
        assert client.get(f"{address}/download").status_code == 404


def test_what_a_log_holds_is_text(client: FlaskClient, running: JobWriter) -> None:
    hostile = "<script>alert(1)</script>\x1b[31mred\x1b[0m \x1b]8;;javascript:x\x07link\x1b]8;;\x07 \u202egnp.exe\n\n"
    running.write_log("ps_0", 0, "stdout", hostile.encode() + b"\xff\x00</pre>end")
    page = client.get(f"/jobs/{RUNNING}/logs/ps_0/0/stdout").text
    assert shown(page) == "&lt;script&gt;alert(1)&lt;/script&gt;red link \ufffdgnp.exe\n\n\ufffd\ufffd&lt;/pre&gt;end"
