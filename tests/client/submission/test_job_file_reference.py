from pathlib import Path

from afo_client.submission.job_file_reference import page

PAGE = Path(__file__).parents[3] / "docs" / "job-file.md"


def test_the_committed_page_is_the_generated_one() -> None:
    hint = "run: python -m afo_client.submission.job_file_reference > docs/job-file.md"
    assert PAGE.read_text(encoding="utf-8") == page(), hint


def test_every_section_is_there() -> None:
    text = page()
    for section in ("data.shuffle", "roles.<role>.instances", "optimizer.wide.ftrl", "optimizer.deep", "timeouts"):
        assert f"## `{section}`" in text
    assert "| `batch_size` | whole number >= 1 and <= 2147483647 | `1024` |" in text
