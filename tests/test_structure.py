"""Structure of the code: folders that can be overlooked, modules of one idea, file names that say which."""

from pathlib import Path

import structure

ROOT = Path(__file__).parents[1]
FILES = structure.modules(ROOT)

#: Two catalogues of messages, which are read one entry at a time.
CATALOGUES = {"afo.rpc.messages", "afo.events.types"}
#: Folders whose files are named after what each stands for, whatever else has that name: a verb of `afo`, a section of
#: the job file, a page of the history server.
NAMED_AFTER = ("afo_client.cli.", "afo.job.", "afo_history_server.web.")
#: One implementation of a protocol in each folder, named by its kind.
KINDS = {"local"}


def test_no_module_is_on_an_import_circle() -> None:
    assert structure.on_circles(structure.imports(FILES)) == []


def test_a_folder_has_at_most_20_modules_but_for_one_of_a_file_for_each_verb() -> None:
    large = {name for name, count in structure.folders(FILES, ROOT).items() if count > 20}
    assert large == {"client/afo_client/cli"}


def test_a_module_is_at_most_400_lines_but_for_catalogues() -> None:
    long = {name for name, lines in structure.lengths(FILES).items() if lines > 400}
    assert long <= CATALOGUES


def test_a_file_name_is_there_once() -> None:
    several = {
        stem: [name for name in names if not name.startswith(NAMED_AFTER)]
        for stem, names in structure.shared_names(FILES).items()
        if stem not in KINDS
    }
    assert {stem: names for stem, names in several.items() if len(names) > 1} == {}
