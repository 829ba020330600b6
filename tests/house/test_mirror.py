"""Every module has a test file of its own at the mirrored place, or a reason here why not."""

from __future__ import annotations

import re

from tests.house.tree import ROOT, tracked

# Module -> the test file that tests it, where that is not the mirrored one.
ELSEWHERE: dict[str, str] = {
    "ovnmig/agent/announce.py": "tests/netns/test_agent_announce.py",
    "ovnmig/agent/gate.py": "tests/netns/test_agent_gate.py",
    "ovnmig/agent/contract.py": "tests/agent/test_app.py",
    "ovnmig/agent/link.py": "tests/netns/test_agent_stream.py",
    "ovnmig/agent/localdb.py": "tests/netns/test_agent_announce.py",
    "ovnmig/agent/main.py": "tests/netns/agent_program.py",
    "ovnmig/agent/parts.py": "tests/drivers/test_node_agent.py",
    "ovnmig/agent/peer.py": "tests/drivers/test_node_agent.py",
    "ovnmig/agent/readback.py": "tests/netns/test_agent_readback.py",
    "ovnmig/agent/settings.py": "tests/netns/agent_program.py",
    "ovnmig/agent/sink.py": "tests/netns/test_agent_stream.py",
    "ovnmig/agent/takeover.py": "tests/netns/test_agent_keep.py",
    "ovnmig/agent/switch.py": "tests/netns/test_agent_announce.py",
    "ovnmig/agent/transfers.py": "tests/netns/test_agent_transfer.py",
    "ovnmig/cli/exits.py": "tests/cli/test_client.py",
    "ovnmig/service/examples.py": "tests/test_contract.py",
}
# Module -> why nothing tests it on its own.
WITHOUT: dict[str, str] = {
    "ovnmig/agent/applying.py": "one half of a stream: tests/netns/test_agent_stream.py sends it every frame",
    "ovnmig/agent/forward.py": "tests/netns/test_agent_transfer.py hands over, and looks what still goes on",
    "ovnmig/agent/node.py": "answers about a node: tests/netns/test_agent_start.py asks an agent that runs",
    "ovnmig/agent/outgoing.py": "one half of a stream: tests/netns/test_agent_transfer.py runs both",
    "ovnmig/agent/problems.py": "every refusal in tests/agent/test_app.py and tests/netns is one",
    "ovnmig/agent/sender.py": "one half of a stream: tests/netns/test_agent_transfer.py runs both",
    "ovnmig/agent/source.py": "one half of a stream: tests/netns/test_agent_transfer.py runs both",
    "ovnmig/agent/stream.py": "the listener: tests/netns/test_agent_stream.py connects to it",
    "ovnmig/agent/worker.py": "a thread with a conntrack socket: every transfer in tests/netns runs in it",
    "ovnmig/conntrack/delete.py": "tests/netns/test_conflicts.py deletes by tuple in the kernel",
    "ovnmig/conntrack/events.py": "tests/netns/test_events.py follows the kernel's events",
    "ovnmig/conntrack/hashing.py": "fingerprints: tests/conntrack/test_diff.py compares by them",
    "ovnmig/conntrack/insert.py": "tests/netns/test_conflicts.py has a case for each outcome in the kernel",
    "ovnmig/conntrack/layout.py": "a step of the transform: tests/conntrack/test_transform.py",
    "ovnmig/conntrack/lookup.py": "tests/netns/test_conflicts.py: what holds a tuple decides the outcome",
    "ovnmig/conntrack/messages.py": "message headers: every test in tests/netns speaks with them",
    "ovnmig/conntrack/outcome.py": "tests/netns/test_conflicts.py has a case for each",
    "ovnmig/conntrack/program.py": "a step of the transform: tests/conntrack/test_transform.py",
    "ovnmig/conntrack/shape.py": "a step of the transform: tests/conntrack/test_transform.py",
    "ovnmig/conntrack/socket.py": "tests/netns/test_faults.py loses answers on a real one",
    "ovnmig/conntrack/spec.py": "what a record may hold: tests/conntrack/test_records.py",
    "ovnmig/conntrack/verify.py": "tests/netns/test_faults.py: entries vanish",
    "ovnmig/cli/options.py": "declarations of options; every command's test uses them",
}


def modules() -> list[str]:
    return [path for path in tracked("ovnmig/*.py") if not path.endswith("/__init__.py")]


def mirror(module: str) -> str:
    folder, _, name = module.removeprefix("ovnmig/").rpartition("/")
    return f"tests/{folder}/test_{name}" if folder else f"tests/test_{name}"


def test_the_modules_are_found() -> None:
    assert "ovnmig/core/migration.py" in modules()


def test_every_module_has_its_test_file_or_a_reason() -> None:
    listed = ELSEWHERE.keys() | WITHOUT.keys()
    lacking = [m for m in modules() if not (ROOT / mirror(m)).is_file() and m not in listed]
    assert not lacking, "no test file: " + ", ".join(f"{m} -> {mirror(m)}" for m in lacking)


def test_no_entry_of_the_lists_is_out_of_date() -> None:
    listed = ELSEWHERE.keys() | WITHOUT.keys()
    assert not listed - set(modules()), "listed, but not there"
    assert not [m for m in listed if (ROOT / mirror(m)).is_file()], "listed, but the mirrored file is there"
    assert not ELSEWHERE.keys() & WITHOUT.keys()


def test_a_test_file_elsewhere_imports_what_it_tests() -> None:
    for module, test_file in ELSEWHERE.items():
        name = module.removesuffix(".py").replace("/", ".")
        parent, _, last = name.rpartition(".")
        whole, part = rf"from {re.escape(name)} import", rf"from {re.escape(parent)} import .*\b{last}\b"
        assert re.search(rf"^\s*({whole}|{part})", (ROOT / test_file).read_text(encoding="utf-8"), re.M), (
            module
        )


def test_every_test_folder_is_a_package() -> None:
    folders = {path.rpartition("/")[0] for path in tracked("tests/*.py")}
    bare = sorted(folder for folder in folders if not (ROOT / folder / "__init__.py").is_file())
    assert not bare, f"test folders without __init__.py: {bare}"
