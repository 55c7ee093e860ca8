"""The server of the Model Context Protocol: typed tools, within one folder and a time limit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fadiff_mapper.cli import mcp_server
from fadiff_mapper.inputs.spec.spec import METRIC_EXPONENTS

Client = pytest.importorskip("mcp.client.client").Client
FILES = ["bundled:arch/gemmini_small", "bundled:layers/resnet18/fc_512_1000"]


def call(folder: Path, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    async def session() -> list[Any]:
        async with Client(mcp_server.make_server(folder, 60.0)) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]
    return asyncio.run(session())


def message(answer: Any) -> str:
    assert answer.is_error
    return str(answer.content[0].text)


def test_a_layer_is_mapped_evaluated_and_explained(tmp_path: Path) -> None:
    mapped, evaluated, explained = call(
        tmp_path, ("map", {"files": FILES, "output": "out", "time_limit": 20}),
        ("evaluate", {"files": ["out/fadiff.input.yaml"]}), ("explain", {"folder": "out"}))
    result = mapped.structured_content["result"]
    assert "EDP is the best possible" in mapped.structured_content["printed"]
    assert evaluated.structured_content["result"]["cycles"] == result["stats"]["cycles"]
    assert explained.structured_content["result"]["metric"] == "edp"


def test_tools_have_types() -> None:
    async def tools() -> Any:
        async with Client(mcp_server.make_server(Path("."), 60.0)) as client:
            return (await client.list_tools()).tools
    found = {tool.name: tool.input_schema for tool in asyncio.run(tools())}
    assert list(found) == ["check", "evaluate", "map", "network", "design", "explain"]
    for tool in ("map", "network"):
        assert found[tool]["properties"]["metric"]["enum"] == list(METRIC_EXPONENTS)


@pytest.mark.parametrize("path", ["../outside.yaml", "/etc/passwd", "link.yaml"])
def test_paths_outside_are_refused(tmp_path: Path, path: str) -> None:
    folder, outside = tmp_path / "served", tmp_path / "outside.yaml"
    folder.mkdir()
    outside.write_text("secret: 1\n", encoding="utf-8")
    (folder / "link.yaml").symlink_to(outside)
    answer, = call(folder, ("check", {"files": [path]}))
    assert "accepted: paths below the folder of the server" in message(answer)
    output, = call(folder, ("map", {"files": FILES, "output": ".."}))
    assert "accepted: paths below the folder of the server" in message(output)


@pytest.mark.parametrize(("tool", "arguments", "links"), [
    ("check", {"files": ["inner"]}, ["input.yaml"]),
    ("explain", {"folder": "inner"}, ["fadiff.input.yaml", "fadiff.result.json"]),
    ("network", {"network": "inner", "files": FILES[:1], "output": "out"}, ["edges.yaml"]),
    ("design", {"space": "inner/space.yaml", "networks": ["inner"], "output": "out"}, ["space.yaml"])])
def test_a_link_in_a_folder_leads_nowhere(tool: str, arguments: dict[str, Any], links: list[str],
                                          tmp_path: Path) -> None:
    (tmp_path / "served" / "inner").mkdir(parents=True)
    (tmp_path / "outside.yaml").write_text("secret: 1\n", encoding="utf-8")
    for name in links:
        (tmp_path / "served" / "inner" / name).symlink_to(tmp_path / "outside.yaml")
    said = message(call(tmp_path / "served", (tool, arguments))[0])
    assert ("lies outside of the folder" in said or "paths below the folder" in said) and "secret" not in said


def test_templates_include_nothing_from_outside(tmp_path: Path) -> None:
    folder, outside = tmp_path / "served", tmp_path / "outside.yaml"
    folder.mkdir()
    outside.write_text("secret: 1\n", encoding="utf-8")
    (folder / "a.yaml").write_text(f"{{{{ include_text('{outside}') }}}}\n", encoding="utf-8")
    answer, = call(folder, ("check", {"files": ["a.yaml"]}))
    assert "lies outside of the folder" in message(answer) and "secret" not in message(answer)


def test_a_call_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "GRACE", -59.99)
    answer, = call(tmp_path, ("check", {"files": FILES}))
    assert "did not end within" in message(answer)
