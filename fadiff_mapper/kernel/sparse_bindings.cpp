// Sparse designs and densities for Python.

#include <algorithm>
#include <cmath>

#include "bindings.hpp"
#include "sparse.hpp"

namespace fadiff {

using namespace sparse;

static void check_choices(const std::vector<Choice>& choices, int tensors) {
    const auto known = [&](int t) { return t >= 0 && t < tensors; };
    for (const Choice& choice : choices) {
        need(!choice.empty(), "choices", ": one without an option");
        for (const auto& [target, leaders] : choice)
            need(known(target) && std::all_of(leaders.begin(), leaders.end(), known), "targets, leaders");
    }
}

static void complete(SparseDesign& design) {
    const Layer& layer = design.layer;
    need(int(design.levels.size()) == layer.levels && int(design.formats.size()) == layer.levels * layer.tensors,
         "levels, formats", ": wrong length");
    need(int(design.models.size()) == layer.tensors && int(design.operand_density.size()) == layer.tensors,
         "models, operand_density", ": wrong length");
    need(layer.levels <= MOST_LEVELS && 2 * layer.levels * layer.dims <= MOST_LOOPS && layer.tensors <= 64 && layer.dims <= MOST_DIMS,
         "the design", " is too large for the compiled evaluation");
    for (int cell = 0; cell < layer.levels * layer.tensors; ++cell) {
        const double block = layer.level[cell / layer.tensors].block;
        design.block.push_back(layer.packed() ? std::max(std::floor(block * layer.per[cell] / layer.whole[cell]), 1.0) : block);
    }
    design.wires = layer;
    design.wires.compute_energy = 0;
    for (Level& level : design.wires.level) level.read = level.fill = level.update = level.leak = level.address = 0;
    for (const Representation& format : design.formats) {
        need(format.ranks.size() <= MOST_RANKS, "ranks", ": too many");
        design.formatted |= !format.ranks.empty();
    }
    for (const SparseLevel& level : design.levels) {
        for (const auto* choices : {&level.gating, &level.skipping, &level.spatial_skipping}) check_choices(*choices, layer.tensors);
        design.skips_instances |= !level.spatial_skipping.empty();
    }
    for (int t = 0; t < layer.tensors; ++t)
        need(design.models[t].kind != DensityModel::BANDED || layer.spaces[t].ranks.size() == 2, "models",
             ": a band of a tensor that is not of two ranks");
}

// The extents of a tile along the ranks of its tensor.
static Box box_from(const std::vector<double>& extents) {
    Box box;
    for (double extent : extents) {
        if (!(extent >= 1)) throw std::invalid_argument("tile: extents below 1");
        box.words *= extent;
    }
    if (extents.size() == 2) box.rows = extents[0];
    return box;
}

static DensityModel model_of(const std::string& distribution, double density, std::int64_t band_width,
                             const std::vector<double>& tensor) {
    DensityModel model;
    model.density = density, model.band_width = band_width, model.tensor = box_from(tensor);
    model.nonzeros = std::ceil(density * model.tensor.words);
    if (distribution == "fixed_structured") return model;
    if (!(model.tensor.words < 0x1p53)) throw Aborted("a tensor of 2^53 words or more has a fixed structure alone");
    model.kind = distribution == "banded" ? DensityModel::BANDED : DensityModel::HYPERGEOMETRIC;
    const bool square = tensor.size() == 2 && tensor[0] == tensor[1];
    if (model.kind == DensityModel::BANDED && !(square && band_width < std::int64_t(0x1p53) && model.expected(Box()) >= 0)) {
        std::string shape;
        for (double extent : tensor) shape += (shape.empty() ? "" : " x ") + std::to_string(std::int64_t(extent));
        throw Aborted("Timeloop aborts on a banded density of band width " + std::to_string(band_width) + " for a tensor of "
                      + shape + " words; accepted: a square matrix of two ranks, at least half as large as the band is wide");
    }
    return model;
}

static py::array_t<double> array_of(const sparse::Numbers& numbers) { return py::array_t<double>(numbers.size(), numbers.data()); }

// The class of Python's errors that stand for `Aborted`, as the package names it.
static PyObject* aborted_class = PyExc_ValueError;

static void add_density(py::module_& module) {
    module.def("raise_aborted_as", [](const py::type& error) { aborted_class = error.inc_ref().ptr(); });
    py::register_exception_translator([](std::exception_ptr thrown) {
        try {
            if (thrown) std::rethrow_exception(thrown);
        } catch (const Aborted& aborted) {
            PyErr_SetString(aborted_class, aborted.what());
        }
    });
    using Extents = std::vector<double>;
    py::class_<DensityModel>(module, "DensityModel")
        .def(py::init(&model_of), py::arg("distribution"), py::arg("density"), py::arg("band_width"), py::arg("tensor"))
        .def_property_readonly("kind", [](const DensityModel& own) {
            return own.kind == DensityModel::FIXED ? "fixed_structured"
                : own.kind == DensityModel::BANDED ? "banded" : "hypergeometric";
        })
        .def_readonly("density", &DensityModel::density)
        .def_readonly("nonzeros", &DensityModel::nonzeros)
        .def_property_readonly("words", [](const DensityModel& own) { return own.tensor.words; })
        .def("__repr__", [](const DensityModel& own) {
            return py::str("DensityModel{}").format(py::make_tuple(int(own.kind), own.density, own.nonzeros, own.band_width,
                                                                   own.tensor.words, own.tensor.rows));
        })
        .def("histogram", [](const DensityModel& own, const Extents& tile) {
            const Histogram found = own.histogram(box_from(tile));
            return py::make_tuple(array_of(found.occupancies), array_of(found.probabilities));
        })
        .def("least", [](const DensityModel& own, const Extents& tile) { return own.least(box_from(tile)); })
        .def("most", [](const DensityModel& own, const Extents& tile) { return own.most(box_from(tile)); })
        .def("expected", [](const DensityModel& own, const Extents& tile) { return own.expected(box_from(tile)); })
        .def("empty", [](const DensityModel& own, const Extents& tile) { return own.empty(box_from(tile)); })
        .def("empty_within", [](const DensityModel& own, const Extents& tile, const Extents& outer, const Extents& occupancies) {
            return array_of(own.empty_within(box_from(tile), box_from(outer), occupancies));
        })
        .def("most_elements", [](const DensityModel& own, const Extents& fiber, const Extents& element) {
            return own.most_elements(box_from(fiber), box_from(element));
        });
}

void add_sparse(py::module_& module) {
    using std::pair;
    add_density(module);
    module.attr("MOST_RANKS") = MOST_RANKS, module.attr("MOST_LEVELS") = MOST_LEVELS, module.attr("MOST_LOOPS") = MOST_LOOPS;
    module.attr("REJECTED") = REJECTED;
    module.attr("VECTOR_THRESHOLDS") = VECTOR_THRESHOLDS;
    py::enum_<RankKind>(module, "RankKind")
        .value("cp", RankKind::COORDINATE_PAYLOAD).value("rle", RankKind::RUN_LENGTH)
        .value("b", RankKind::BITMASK).value("ub", RankKind::UNCOMPRESSED_BITMASK)
        .value("uop", RankKind::OFFSET_PAIR);
    add_table(module, "RankTable", pair("kind", &RankFormat::kind), pair("groups", &RankFormat::groups),
              pair("metadata_bits", &RankFormat::metadata_bits), pair("payload_bits", &RankFormat::payload_bits));
    add_table(module, "FormatTable", pair("ranks", &Representation::ranks),
              pair("inner_to_outer", &Representation::inner_to_outer), pair("compressed", &Representation::compressed));
    add_table(module, "SparseLevel", pair("decompresses", &SparseLevel::decompresses), pair("compresses", &SparseLevel::compresses),
              pair("metadata_limit", &SparseLevel::metadata_limit), pair("word_bits", &SparseLevel::word_bits),
              pair("metadata_width", &SparseLevel::metadata_width), pair("metadata_word_bits", &SparseLevel::metadata_word_bits),
              pair("data", &SparseLevel::data), pair("metadata", &SparseLevel::metadata),
              pair("decompression", &SparseLevel::decompression), pair("compression", &SparseLevel::compression),
              pair("leak", &SparseLevel::leak), pair("gating", &SparseLevel::gating), pair("skipping", &SparseLevel::skipping),
              pair("spatial_skipping", &SparseLevel::spatial_skipping));
    made_of_fields(py::class_<SparseDesign, std::shared_ptr<SparseDesign>>(module, "SparseTables"), &complete,
                   pair("layer", &SparseDesign::layer), pair("levels", &SparseDesign::levels),
                   pair("formats", &SparseDesign::formats), pair("gates_computes", &SparseDesign::gates_computes),
                   pair("skips_computes", &SparseDesign::skips_computes), pair("computes", &SparseDesign::computes),
                   pair("compute_energy", &SparseDesign::compute_energy), pair("models", &SparseDesign::models),
                   pair("operand_density", &SparseDesign::operand_density));
}

}  // namespace fadiff
