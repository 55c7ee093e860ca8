#include <limits>

#include "bindings.hpp"
#include "proof.hpp"

namespace fadiff {
namespace {

using Names = std::vector<std::uint8_t>;
using Loops = std::vector<std::pair<std::vector<double>, Names>>;  // factors and order of the outermost levels

void check(bool right, const char* what) { need(right, what, ": wrong shape"); }

void check_order(const std::uint8_t* order, std::size_t size, int dims, const char* what) {
    check(int(size) == dims && each_dimension_once(order, 1, dims), what);
}

std::unique_ptr<OneCall<Prover>> prover(const Layer& layer, std::vector<double> bounds,
                                        const std::vector<std::vector<std::vector<double>>>& factors,
                                        const std::vector<std::tuple<Names, Names, Names>>& orders, Metric metric,
                                        std::pair<double, double> sums) {
    const std::size_t levels = layer.levels, dims = layer.dims;
    check(bounds.size() == dims && factors.size() == levels && orders.size() == levels, "loops");
    check(sums.first > 0 && sums.second > 0, "sums");
    OpenLoops open;
    for (std::size_t level = 0; level < levels; ++level) {
        check(factors[level].size() == dims, "factors");
        for (const auto& own : factors[level]) {
            for (double factor : own) check(factor >= 1, "factors");
            open.factors.push_back(own);
        }
        const auto& [inner, between, outer] = orders[level];
        open.inner.push_back(inner), open.between.push_back(between), open.outer.push_back(outer);
        Names all = inner;
        all.insert(all.end(), between.begin(), between.end()), all.insert(all.end(), outer.begin(), outer.end());
        check_order(all.data(), all.size(), layer.dims, "orders");
    }
    return std::make_unique<OneCall<Prover>>(layer, std::move(bounds), std::move(open), metric,
                                             Price{sums.first, sums.second});
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

std::vector<LevelLoops> loops_of(const Prover& prover, const Loops& outer) {
    check(int(outer.size()) <= prover.layer().levels, "outer");
    std::vector<LevelLoops> loops;
    for (const auto& [factor, order] : outer) {
        check(int(factor.size()) == prover.layer().dims, "outer");
        check_order(order.data(), order.size(), prover.layer().dims, "outer");
        loops.push_back({factor, order});
    }
    return loops;
}

py::tuple divided(Prover& prover, const Loops& outer, double limit) {
    std::size_t bounded = 0;
    std::vector<Part> parts;
    {
        const auto loops = loops_of(prover, outer);
        py::gil_scoped_release release;
        parts = prover.divided(loops, limit, bounded);
    }
    py::list result;
    for (const Part& part : parts) result.append(py::make_tuple(part.bound, part.loops.factor, part.loops.order));
    return py::make_tuple(bounded, result);
}

py::tuple search(Prover& prover, const Loops& outer, double limit, std::size_t budget) {
    Searched found;
    {
        const auto loops = loops_of(prover, outer);
        py::gil_scoped_release release;
        found = prover.search(loops, limit, budget);
    }
    py::object best = py::none();
    if (found.best) best = nest_arrays(prover.layer(), {&*found.best}, false);
    return py::make_tuple(found.whole, found.least, found.value, found.parts, found.mappings, best);
}

}  // namespace

void add_prover(py::module_& module) {
    module.attr("PROOF_TOLERANCE") = PROOF_TOLERANCE;
    py::class_<OneCall<Prover>>(module, "Prover")
        .def(py::init(&prover), py::keep_alive<1, 2>())
        .def("begin", one_call(&begin))
        .def("divided", one_call(&divided))
        .def("search", one_call(&search));
}

}  // namespace fadiff
