#include <limits>

#include "bindings.hpp"
#include "proof.hpp"

namespace fadiff {
namespace {

using Names = std::vector<std::uint8_t>;

void check(bool right, const char* what) { need(right, what, ": wrong shape"); }

void check_order(const std::uint8_t* order, std::size_t size, int dims, const char* what) {
    check(int(size) == dims && each_dimension_once(order, 1, dims), what);
}

std::unique_ptr<OneCall<Prover>> prover(const Layer& layer, std::vector<double> bounds, OpenLoops open, Metric metric) {
    const std::size_t levels = layer.levels, dims = layer.dims;
    check(bounds.size() == dims && open.factors.size() == levels * dims && metric != Metric::SHARE, "loops");
    for (const auto& own : open.factors)
        for (double factor : own) check(factor >= 1, "factors");
    for (const auto* part : {&open.inner, &open.between, &open.outer}) check(part->size() == levels, "orders");
    for (std::size_t level = 0; level < levels; ++level) {
        Names all = open.inner[level];
        for (const auto* part : {&open.between, &open.outer}) all.insert(all.end(), (*part)[level].begin(), (*part)[level].end());
        check_order(all.data(), all.size(), layer.dims, "orders");
    }
    return std::make_unique<OneCall<Prover>>(layer, std::move(bounds), std::move(open), metric);
}

double begin(Prover& prover, std::vector<double> spatial, Names keep, const std::vector<std::pair<Names, Names>>& layouts) {
    const Layer& layer = prover.layer();
    const std::size_t cells = std::size_t(layer.levels) * layer.dims;
    check(spatial.size() == cells && keep.size() == std::size_t(layer.levels) * layer.tensors && !layouts.empty(), "scheme");
    for (double factor : spatial) check(factor >= 1, "scheme");
    Scheme scheme{std::move(spatial), std::move(keep), {}};
    for (const auto& [order, on_y] : layouts) {
        check(order.size() == cells && on_y.size() == cells, "layouts");
        for (int level = 0; level < layer.levels; ++level)
            check_order(order.data() + level * layer.dims, layer.dims, layer.dims, "layouts");
        scheme.layouts.push_back({order, on_y});
    }
    return prover.begin(scheme);
}

std::pair<std::size_t, std::vector<Part>> divided(Prover& prover, const std::vector<LevelLoops>& outer, double limit) {
    py::gil_scoped_release release;
    return prover.divided(outer, limit);
}

py::tuple search(Prover& prover, const std::vector<LevelLoops>& outer, double limit, std::size_t budget) {
    Searched found;
    {
        py::gil_scoped_release release;
        found = prover.search(outer, limit, budget);
    }
    py::object best = py::none();
    if (found.best) best = nest_arrays(prover.layer(), {&*found.best}, false);
    return py::make_tuple(found.whole, found.least, found.value, found.parts, found.mappings, best);
}

}  // namespace

void add_prover(py::module_& module) {
    using std::pair;
    module.attr("PROOF_TOLERANCE") = PROOF_TOLERANCE;
    add_table(module, "OpenLoops", pair("factors", &OpenLoops::factors), pair("inner", &OpenLoops::inner),
              pair("between", &OpenLoops::between), pair("outer", &OpenLoops::outer));
    py::class_<LevelLoops>(module, "LevelLoops")
        .def_readonly("factors", &LevelLoops::factor).def_readonly("order", &LevelLoops::order);
    py::class_<OneCall<Prover>>(module, "Prover")
        .def(py::init(&prover), py::keep_alive<1, 2>())
        .def("begin", one_call(&begin))
        .def("divided", one_call(&divided))
        .def("search", one_call(&search));
}

}  // namespace fadiff
