"""The doors through which input comes: for each a corpus, a mutation, and the commands that read it."""

from __future__ import annotations

import copy
import functools
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import yaml
from fuzz.attack import Case
from fuzz.mutations import NUMBERS, WORDS, mutated_bytes, mutated_text, mutated_tree, nasty
from small_specs import TWO_LAYERS

from fadiff_mapper import SearchOptions, load, map_layer
from fadiff_mapper.base.bundled_files import ROOT, designs, find

TABLES = ("--energy", "bundled")
"""The same whether Accelergy is installed or not."""

EFFORT = ("--effort", "light")


@functools.cache
def native() -> dict[str, Any]:
    """A small input in the native dialect, with tables and a mapping: a finished run's own input."""
    spec = load({
        "architecture": {"version": "0.3", "subtree": [{"name": "chip", "local": [
            {"name": "DRAM", "class": "DRAM", "attributes": {"word_bits": 16, "shared_bandwidth": 2}},
            {"name": "Buffer[0..3]", "class": "SRAM", "attributes": {"entries": 24, "word_bits": 16, "width": 32,
                                                                   "meshX": 4, "read_bandwidth": 4}},
            {"name": "MAC[0..7]", "class": "mac", "attributes": {"word_bits": 16, "meshX": 4, "meshY": 2}}]}]},
        "mapspace_constraints": {"targets": [{"target": "DRAM", "type": "temporal", "factors": "N1"}]},
        "mapper": {"optimization_metrics": ["edp"], "timeout": 10},
        "problem": {"shape": {"name": "conv", "dimensions": ["C", "M", "P", "R", "N"], "coefficients": [
            {"name": "S", "default": 1}], "data_spaces": [
            {"name": "Weights", "projection": [[["C"]], [["M"]], [["R"]]]},
            {"name": "Inputs", "projection": [[["N"]], [["C"]], [["R"], ["P", "S"]]]},
            {"name": "Outputs", "projection": [[["N"]], [["M"]], [["P"]]], "read_write": True}]},
            "instance": {"C": 4, "M": 8, "P": 6, "R": 3, "N": 1, "S": 1}}})
    result = map_layer(spec, SearchOptions(effort="light"))
    from fadiff_mapper.output.run_files import run_files
    return {"input": yaml.safe_load(run_files(result)["fadiff.input.yaml"]), "files": run_files(result)}


@functools.cache
def specifications() -> tuple[str, ...]:
    """Bundled architectures of the v0.4 dialect."""
    return tuple(path.read_text(encoding="utf-8") for path in designs().values())


def yaml_files(folder: Path, rng: random.Random) -> Case:
    """A v0.4 architecture with a problem, or a native input with a mapping; the tree or the text is mutated."""
    if rng.random() < 0.5:
        text = rng.choice(specifications())
        (folder / "problem.yaml").write_text(find("problems/conv").read_text())
        files, command = ("arch.yaml", "problem.yaml"), rng.choice(("check", "check", "evaluate"))
    else:
        text, files, command = yaml.safe_dump(native()["input"], sort_keys=False), ("arch.yaml",), "evaluate"
    if command == "evaluate" and len(files) == 1 and rng.random() < 0.7:
        text = yaml.dump(mutated_tree(native()["input"], rng), sort_keys=False, allow_unicode=True)
    else:
        text = mutated_text(text, rng)
    (folder / "arch.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    if rng.random() < 0.1:
        (folder / "arch.yaml").write_bytes(mutated_bytes(text.encode(), rng))
    return Case((command, *files, *(("--energy", "estimate") if rng.random() < 0.3 else TABLES)))


PIECES = ("1", "2.5", "depth", "width", "'x'", "1e308", "2", "0", "-3", "10**9", "True", "pi", "[1, 2]", "spec", "len")
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "==", "<", "and", "or", "if 1 else", ",", ".",
             "in")
CALLED = ("max", "min", "ceil", "log2", "range", "sum", "str", "int", "factorial", "comb", "perm", "round", "prod",
          "list",
          "lambda x:", "not", "open", "")


def expressions(folder: Path, rng: random.Random) -> Case:
    """Random expressions as the value of an attribute or a variable."""
    def text(depth: int) -> str:
        if depth <= 0 or rng.random() < 0.2:
            return rng.choice([*PIECES, *PIECES, str(rng.choice(NUMBERS)), str(rng.choice(WORDS))])
        if rng.random() < 0.4:
            return f"{rng.choice(CALLED)}({text(depth - 1)})"
        return f"{text(depth - 1)} {rng.choice(OPERATORS)} {text(depth - 1)}"
    design = yaml.safe_load("""
architecture:
  version: 0.4
  nodes:
  - !Component {name: DRAM, class: DRAM, attributes: {datawidth: 8, width: 64}}
  - !Component {name: Buffer, class: SRAM, attributes: {depth: 64, width: 16, datawidth: 8}}
  - !Component {name: MAC, class: intmac, attributes: {datawidth: 8}}
variables: {version: 0.4}
""".replace("!Component", ""))
    place = rng.choice(("depth", "width", "datawidth", "n_banks", "read_bandwidth"))
    design["architecture"]["nodes"][1]["attributes"][place] = text(4)
    written = yaml.safe_dump(design, sort_keys=False).replace("- name", "- !Component\n    name")
    (folder / "arch.yaml").write_text(written)
    (folder / "problem.yaml").write_text(find("problems/conv").read_text())
    return Case(("check", "arch.yaml", "problem.yaml", *TABLES))


def extreme_attributes(folder: Path, rng: random.Random) -> Case:
    """A native design whose attributes lie at the ends of the ranges of numbers, with estimated energies."""
    design = copy.deepcopy(native()["input"])
    for key in ("ERT", "ART"):
        design.pop(key, None)
    local = design["architecture"]["subtree"][0]["local"]
    for _ in range(rng.randint(1, 4)):
        component = rng.choice(local)
        component.setdefault("attributes", {})[rng.choice(ATTRIBUTES)] = rng.choice(EXTREMES)
        if rng.random() < 0.2:
            component["class"] = rng.choice(("DRAM", "SRAM", "regfile", "smartbuffer", "intmac", "fpmac", "XY_NoC"))
    (folder / "arch.yaml").write_text(yaml.safe_dump(design, sort_keys=False))
    return Case((rng.choice(("check", "evaluate", "evaluate")), "arch.yaml", "--energy",
                 rng.choice(("estimate", "built-in"))))


ATTRIBUTES = ("word_bits", "width", "datawidth", "entries", "depth", "sizeKB", "block_size", "cluster_size", "n_banks",
              "technology", "exponent", "mantissa", "global_cycle_seconds", "energy", "energy_scale", "read_bandwidth",
              "write_bandwidth", "shared_bandwidth", "meshX", "meshY", "instances", "num_ports", "multiple_buffering",
              "min_utilization", "network_fill_latency", "wire_energy", "router_energy", "tile_width", "energy_per_hop",
              "vector_access_energy", "addr_gen_energy", "power_gated_at")
EXTREMES = (*NUMBERS, 5e-324, 1e-300, 1e-30, 1e-29, 1e29, 1e30, 1e31, 2 ** 52, 2 ** 53 - 111, 10 ** 25,
            "9" * 400 + "nm", "0." + "0" * 400 + "1nm", "7nm", "x", "", True, [], 16, 4, 64)


def sizes(folder: Path, rng: random.Random) -> Case:
    """Problems and architectures of unusual shape: many dimensions, levels and data spaces, large and rich bounds."""
    names = [f"D{i}" for i in range(rng.choice((1, 2, 7, 20, 70, 3000)))]
    bounds = dict.fromkeys(names, 1)
    for name in rng.sample(names, min(len(names), rng.choice((1, 2, 5, 20)))):
        bounds[name] = rng.choice((2, 6, 997, 65521, 5040, 735134400, 2 ** 53 - 111, 2 ** 53, 6064949221531200, 2 ** 26,
                                   73513440, 1))
    spaces = [{"name": f"S{i}", "projection": [[[name]] * rng.choice((1, 1, 1, 40)) for name in names[:40]]}
              for i in range(rng.choice((1, 2, 60, 1000)))]
    spaces.append({"name": "Out", "projection": [[[names[0]]]], "read_write": True})
    levels = [{"name": f"L{i}[0..{rng.choice((0, 0, 3, 10 ** 9, 2 ** 53))}]", "class": "SRAM", "attributes": {
        "entries": rng.choice((64, 2 ** 40, 1)), "word_bits": 8}} for i in range(rng.choice((1, 3, 30, 70, 3000)))]
    for level in levels if rng.random() < 0.8 else []:
        level["name"] = str(level["name"]).partition("[")[0]
    design = {"architecture": {"version": "0.4", "subtree": [{"name": "chip", "local": [
        {"name": "DRAM", "class": "DRAM", "attributes": {"word_bits": 8}}, *levels,
        {"name": "MAC", "class": "intmac", "attributes": {"word_bits": 8}}]}]},
        "problem": {"instance": bounds, "shape": {"name": "p", "dimensions": names, "data_spaces": spaces}}}
    (folder / "arch.yaml").write_text(json.dumps(design))
    if rng.random() < 0.7:
        return Case(("check", "arch.yaml", "--energy", "built-in"))
    return Case(("map", "arch.yaml", "-o", "out", "--quiet", "--time-limit", "0.5", "--energy", "built-in", *EFFORT))


def unusual(path: Path, rng: random.Random) -> None:
    """Puts something else in the place of a file: a pipe, a folder, a link, a device, nothing that is text."""
    if path.is_symlink() or path.exists():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    match rng.randrange(8):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to(rng.choice((path.name, "/dev/zero", "/dev/full", "/dev/stdin", "nowhere",
                                        "/proc/self/mem")))
        case 3:
            path.write_bytes(rng.choice((b"", b"\0" * 100_000, b"\xff\xfe" * 50, b"\xef\xbb\xbf", b"\r" * 99)))
        case 4:
            path.write_bytes(b"\x80\x02}q\x00." * 10)
        case 5:
            path.write_bytes(b" " * (5 << 20))
        case 6:
            path.write_bytes(b"a: 1\n")
            path.chmod(0)
        case _:
            path.write_text(rng.choice(BOMBS))


BOMBS = (
    *(text * (200_000 // len(text)) for text in (
        "[", "{", "- 1\n", "- - ", "? ", "--- a\n", "!a ", "a: b: ", "&a [", "'", '"', "\t", "|\n x\n", "a: 1\n",
        "%TAG !a! b\n", "{{ ", "{% if 1 %}", "{#", "# x\n")),
    "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 1}]\n" for i in range(30)),
    "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9) if i else '{}'}]}}\n" for i in range(30)),
    "".join(" " * i + "a:\n" for i in range(600)),
    "architecture: {" + ", ".join(f"k{i}: 1" for i in range(20_000)) + "}",
    "variables: {version: 0.4, " + ", ".join(f"k{i}: factorial(400)" for i in range(20_000)) + "}",
    "problem: {instance: {" + ", ".join(f"k{i}: 2" for i in range(20_000)) + "}}",
    'a: "\\e[31m\\x07"\n', '"\\e[31m": 1\n', '"a\\nb": 1\n')
"""Documents that ask for much: depth, width, repetition, references, work."""

JSON_BOMBS = ("[" * 200_000, '{"a":' * 100_000, "[" + "9" * 5000 + "]", "1e99999", "NaN", '"' + "\\u0000" * 9999 + '"',
              '{"a": 1, ' * 3, "null", "[]", "{}", '{"layers": NaN, "groups": [[]]}')


def odd_files(folder: Path, rng: random.Random) -> Case:
    """Pipes, folders, links, devices, and documents that ask for much in the places of inputs and outputs."""
    (folder / "input.yaml").write_text(yaml.safe_dump(native()["input"]))
    (folder / "net.yaml").write_text(TWO_LAYERS)
    (folder / "problem.yaml").write_text(find("problems/conv").read_text())
    (folder / "out").mkdir()
    inside = folder / "layers"
    inside.mkdir()
    (inside / "a.yaml").write_text(find("problems/conv").read_text())
    place = rng.choice(("input.yaml", "net.yaml", "problem.yaml", "layers/a.yaml", "layers/edges.yaml", "layers/b.yaml",
                        "out", "out/timeloop-mapper.map.yaml", "out/.fadiff.lock", "out/fadiff.result.json",
                        "model.onnx", "out.yaml"))
    unusual(folder / place, rng)
    return Case(rng.choice((
        ("check", "input.yaml", *TABLES), ("evaluate", "input.yaml", *TABLES), ("check", ".", *TABLES),
        ("check", "bundled:arch/gemmini_small", "problem.yaml", *TABLES), ("explain", "out"),
        ("check", "bundled:arch/gemmini_small", "layers", *TABLES), ("import", "layers", "-o", "out.yaml"),
        ("import", "net.yaml", "-o", "out.yaml"), ("import", "model.onnx", "-o", "out.yaml"),
        ("map", "input.yaml", "-o", "out", "--quiet", *TABLES, *EFFORT),
        ("map", "bundled:arch/gemmini_small", "layers", "-o", "out", "--quiet", *TABLES, *EFFORT),
        ("network", "net.yaml", "bundled:arch/gemmini_small", "-o", "out", "--quiet", "--time-limit", "0.5", *TABLES))))


TEMPLATE = ("{{ x }}", "{% set x = 3 %}", "{% for i in range(n) %}", "{% endfor %}", "{{ x ** x ** x }}", "{% if x %}",
            "{% endif %}", "{{ x | join }}", "{{ '' * n }}", "{{ add_to_path('/') }}", "{{ include('y') }}",
            "{% macro m() %}",
            "{% endmacro %}", "{{ m() }}", "{{ ().__class__ }}", "{{ x.__init__ }}", "{%", "}}", "{# ",
            "{{ range(10**9) }}",
            "{{ 'a' * 10**9 }}", "{% include 'arch.yaml' %}", "{{ cycler }}", "{{ lipsum(n=9999) }}",
            "{{ [x] * 10**8 }}")


def templates(folder: Path, rng: random.Random) -> Case:
    """Pieces of templates between the lines of an architecture."""
    lines = rng.choice(specifications()).split("\n")
    for _ in range(rng.randint(1, 6)):
        lines.insert(rng.randrange(len(lines)), rng.choice(("", "  ", "# ")) + rng.choice(TEMPLATE))
    (folder / "arch.yaml").write_text("\n".join(lines))
    (folder / "problem.yaml").write_text(find("problems/conv").read_text())
    return Case(("check", "arch.yaml", "problem.yaml", "-D", f"n={rng.choice((0, 3, 10 ** 9))}", "-D", "x=2", *TABLES))


@functools.cache
def models() -> tuple[bytes, ...]:
    import onnx_networks
    graph = onnx_networks.Graph("small", (1, 4, 8, 8))
    out = graph.fc(graph.op("Flatten", graph.op("MaxPool", graph.conv("x", 4, 8, 3), kernel_shape=[2, 2],
                                                strides=[2, 2])), 128, 10)
    folds = onnx_networks.Graph("folds", (1, 4, 8, 8))
    shape = folds.op("Shape", "x")
    grown = folds.op("ConstantOfShape", folds.op("Concat", shape, folds.numbers(4), axis=0))
    tiled = folds.op("Expand", grown, folds.numbers(2, 1, 4, 8, 8, 4))
    ranged = folds.op("Range", folds.numbers(0), folds.numbers(1000), folds.numbers(1))
    last = folds.op("Tile", folds.op("Reshape", folds.op("Add", tiled, "x"), folds.numbers(-1)), folds.numbers(3))
    return graph.model(out).SerializeToString(), folds.model(last, ranged).SerializeToString()


def onnx_models(folder: Path, rng: random.Random) -> Case:
    """Models with mutated bytes, shapes, attributes and constants."""
    import onnx
    data = rng.choice(models())
    if rng.random() < 0.5:
        data = mutated_bytes(data, rng)
    else:
        model = onnx.ModelProto.FromString(data)
        for _ in range(rng.randint(1, 4)):
            sizes = [2 ** 40, 2 ** 31, 10 ** 6, -1, 0, 1, 2 ** 62, 7]
            match rng.randrange(8):
                case 5:  # values that double again and again
                    grown = rng.choice(model.graph.initializer).name
                    for step in range(rng.choice((3, 10, 26, 60))):
                        model.graph.node.insert(step, onnx.helper.make_node(
                            "Concat", [grown, grown], [f"g{step}"], axis=0))
                        grown = f"g{step}"
                    model.graph.node.append(onnx.helper.make_node("Reshape", ["x", grown], ["reshaped"]))
                case 6:  # weights in other files
                    tensor = rng.choice(model.graph.initializer)
                    tensor.ClearField("raw_data")
                    tensor.data_location = onnx.TensorProto.EXTERNAL
                    tensor.external_data.add(key="location", value=rng.choice(
                        ("/etc/passwd", "../../x", "/dev/zero", "\0", "model.onnx")))
                case 7:  # a graph in a graph
                    inner = onnx.helper.make_node("If", ["c"], ["inner"], then_branch=model.graph,
                                                  else_branch=model.graph)
                    model.graph.node.append(inner)
                case 0:
                    rng.choice(model.graph.input).type.tensor_type.shape.dim.add().dim_value = rng.choice(sizes)
                case 1:
                    tensor = rng.choice(model.graph.initializer)
                    values = [rng.choice(sizes) for _ in range(rng.randint(1, 6))]
                    tensor.CopyFrom(onnx.helper.make_tensor(tensor.name, onnx.TensorProto.INT64, [len(values)], values))
                case 2:
                    dims = rng.choice(model.graph.initializer).dims
                    dims.extend([rng.choice(sizes)] * rng.choice((1, 2, 1000)))
                case 3:
                    node = rng.choice(model.graph.node)
                    node.op_type = rng.choice(("ConstantOfShape", "Expand", "Tile", "Range", "Resize", "Loop", "Conv",
                                               "Pad",
                                               "EyeLike", "Where", "Einsum", "Split", "Gather", "Scan", "If"))
                case _:
                    node = rng.choice(model.graph.node)
                    node.attribute.append(onnx.helper.make_attribute(
                        rng.choice(("pads", "kernel_shape", "perm", "axes", "group", "num_outputs", "value_ints")),
                        rng.choice(([rng.choice(sizes)] * rng.choice((1, 4, 5000)), rng.choice(sizes)))))
        data = model.SerializeToString()
    (folder / "model.onnx").write_bytes(data)
    return Case(("import", "model.onnx", "-o", "network.yaml"))


@functools.cache
def networks() -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8") for path in sorted((ROOT / "networks").glob("*.yaml")))


def network_files(folder: Path, rng: random.Random) -> Case:
    """Bundled networks as files, tree or text mutated."""
    text = rng.choice(networks())
    if rng.random() < 0.6:
        text = yaml.safe_dump(mutated_tree(yaml.safe_load(text), rng), sort_keys=False, allow_unicode=True)
    else:
        text = mutated_text(text, rng)
    (folder / "net.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    return Case(("import", "net.yaml", "-o", "out.yaml"))


def folders(folder: Path, rng: random.Random) -> Case:
    """A folder of problems with edges between them."""
    inside = folder / "net"
    inside.mkdir()
    sources = sorted((ROOT / "layers" / "mobilenet_v1").glob("*.yaml"))[:4]
    names = [path.stem for path in sources]
    for path in sources:
        text = path.read_text()
        if rng.random() < 0.3:
            text = mutated_text(text, rng)
        (inside / path.name).write_bytes(text.encode("utf-8", "surrogatepass"))
    document: Any = {"network": {"name": "small", "layers": [
        {"name": "first", "problem": f"{names[0]}.yaml"},
        {"name": "second", "problem": f"{names[0]}.yaml", "repeat": 2},
        {"name": "third", "problem": f"{names[1]}.yaml"}],
        "edges": [{"from": "first", "to": "second", "as": "Inputs", "axes": {"C": "M"}}]}}
    if rng.random() < 0.8:
        document = mutated_tree(document, rng)
    text = yaml.safe_dump(document, allow_unicode=True)
    text = text if rng.random() < 0.8 else mutated_text(text, rng)
    (inside / "edges.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    return Case(("import", "net", "-o", "out.yaml"))


def finished_runs(folder: Path, rng: random.Random) -> Case:
    """A folder that `map` wrote, a file of which was changed since."""
    files = dict(native()["files"])
    name = rng.choice(("fadiff.result.json", "fadiff.result.json", "fadiff.input.yaml", "timeloop-mapper.map.yaml"))
    if rng.random() < 0.6:
        read, write = (json.loads, json.dumps) if name.endswith("json") else (yaml.safe_load, yaml.safe_dump)
        files[name] = write(mutated_tree(read(files[name]), rng))
    else:
        files[name] = mutated_text(files[name], rng)
    if rng.random() < 0.1 and name.endswith("json"):
        files[name] = rng.choice(JSON_BOMBS)
    for other, text in files.items():
        (folder / other).write_bytes(text.encode("utf-8", "surrogatepass"))
    if rng.random() < 0.1:
        unusual(folder / name, rng)
    if name == "timeloop-mapper.map.yaml":
        return Case(("map", "fadiff.input.yaml", "--warm-start", name, "-o", "out", "--quiet", *EFFORT, *TABLES))
    return Case(("explain", ".", "--count", "DRAM", "Inputs", "reads") if rng.random() < 0.7 else ("explain", "."))


@functools.cache
def checkpoint() -> tuple[str, str]:
    """A network of two small layers, and the checkpoint of a run of it."""
    from tempfile import TemporaryDirectory

    from fadiff_mapper.cli import main
    with TemporaryDirectory() as name:
        Path(name, "net.yaml").write_text(TWO_LAYERS)
        main(["network", f"{name}/net.yaml", "bundled:arch/gemmini_small", "-o", f"{name}/out", "--quiet", *TABLES])
        return TWO_LAYERS, Path(name, "out", "fadiff.checkpoint.json").read_text()


def checkpoints(folder: Path, rng: random.Random) -> Case:
    """The checkpoint of a killed run, changed since."""
    net, saved = checkpoint()
    saved = json.dumps(mutated_tree(json.loads(saved), rng)) if rng.random() < 0.7 else mutated_text(saved, rng)
    (folder / "net.yaml").write_text(net)
    (folder / "out").mkdir()
    saved = rng.choice(JSON_BOMBS) if rng.random() < 0.1 else saved
    (folder / "out" / "fadiff.checkpoint.json").write_bytes(saved.encode("utf-8", "surrogatepass"))
    if rng.random() < 0.1:
        unusual(folder / "out" / rng.choice(("fadiff.checkpoint.json", ".fadiff.lock", "report.html", "groups")), rng)
    return Case(("network", "net.yaml", "bundled:arch/gemmini_small", "-o", "out", "--quiet", "--time-limit", "1",
                 *TABLES))


def launchers(folder: Path, rng: random.Random) -> Case:
    """Words of the launchers' command line, and the files that they name."""
    (folder / "input.yaml").write_text(yaml.safe_dump(native()["input"]))
    (folder / "broken.yaml").write_text(mutated_text(yaml.safe_dump(native()["input"]), rng), errors="surrogatepass")
    (folder / "out").mkdir()
    words = ["input.yaml", "broken.yaml", "-o", "out", "--output", "missing", "-", "--", "", "-h", "no.yaml", ".",
             "out",
             "-o", str(nasty(rng)).replace("\0", ""), "input.yaml"]
    program = rng.choice(("timeloop-model", "timeloop-model", "timeloop-mapper", "timeloop", ""))
    chosen = [rng.choice(words) for _ in range(rng.randint(0, 5))]
    if rng.random() < 0.5:
        chosen = ["input.yaml", "-o", "out", *chosen[:1]]
    limit = ("--time-limit", rng.choice(("1", "0.5"))) if program == "timeloop-mapper" else ()
    return Case((*limit, program, *chosen), "launcher")


def arguments(folder: Path, rng: random.Random) -> Case:
    """Words of the command line itself."""
    (folder / "input.yaml").write_text(yaml.safe_dump(native()["input"]))
    words = ["check", "evaluate", "map", "network", "explain", "import", "bundled", "doctor", "shim", "input.yaml",
             "-o", "out",
             "--json", "--seed", "--time-limit", "--metric", "--effort", "--method", "--jobs", "--energy", "--quiet",
             "--count", "-D", "--dim",
             "bundled:arch/gemmini_small", "bundled:layers/resnet18/fc_512_1000", "--exhaustive", str(nasty(rng)),
             str(rng.choice(NUMBERS)), "light", "gradient", "edp", "a=b", "--help", "."]
    chosen = [rng.choice(words).replace("\0", "") for _ in range(rng.randint(1, 6))]
    if chosen[0] in ("map", "network"):
        chosen += ["--time-limit", "0.5", "--quiet"]
    return Case(tuple(chosen))
