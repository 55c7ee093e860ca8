// Shared parts of the bindings: NumPy arrays with checked shapes, nests, and tables with typed entries.

#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "columns.hpp"
#include "moves.hpp"

namespace fadiff {

namespace py = pybind11;

template <typename T>
using Array = py::array_t<T, py::array::c_style>;

inline void need(bool holds, const char* what, const char* why = ": out of range") {
    if (!holds) throw std::invalid_argument(std::string(what) + why);
}

template <typename T>
const T* cells_of(const Array<T>& array, int levels, int rows, std::size_t batch, const char* name) {
    need(array.ndim() == 3 && array.shape(0) == levels && array.shape(1) == rows && std::size_t(array.shape(2)) == batch, name,
         ": wrong shape");
    return array.data();
}

// A data space whose ranks are lists of terms (dimension, coefficient).
using RankTerms = std::vector<std::vector<std::pair<int, double>>>;

inline DataSpace data_space_of(const RankTerms& ranks, bool written, int dims) {
    need(dims >= 1 && dims <= 64, "dims");
    DataSpace space;
    space.written = written;
    space.move.assign(ranks.size() * dims, 0.0);
    std::size_t terms = 0;
    bool stretched = false;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        Rank rank;
        rank.surplus = -1;
        for (auto [dim, coefficient] : ranks[r]) {
            need(dim >= 0 && dim < dims, "ranks");
            rank.terms.push_back({dim, coefficient});
            rank.dims |= Dims(1) << dim;
            rank.surplus += coefficient;
            space.move[r * dims + dim] += coefficient;
            stretched |= coefficient > 1;
        }
        if (rank.terms.size() == 1 && rank.terms[0].coefficient == 1) rank.single = rank.terms[0].dim;
        space.relevant |= rank.dims;
        if (rank.terms.size() > 1) space.windowed = true, space.shared |= rank.dims;
        terms += rank.terms.size();
        space.ranks.push_back(rank);
    }
    if (written) space.adding = ~space.relevant | space.shared;
    space.holed = written && (terms > ranks.size() || stretched
                              || std::size_t(__builtin_popcountll(space.relevant)) < ranks.size());
    return space;
}

// Defines the constructor of a Python class from named, typed fields; `complete` checks the object and derives further fields.
template <typename Class, typename Complete, typename T, typename... Of>
Class made_of_fields(Class&& made_class, Complete complete, std::pair<const char*, Of T::*>... fields) {
    return made_class.def(py::init([complete, members = std::make_tuple(fields.second...)](const Of&... values) {
        typename Class::holder_type made(new typename Class::type());
        std::apply([&](auto... member) { ((made.get()->*member = values), ...); }, members);
        complete(*made);
        return made;
    }), py::kw_only(), py::arg(fields.first)...);
}

template <typename T, typename... Of>
py::class_<T> add_table(py::module_& module, const char* name, std::pair<const char*, Of T::*>... fields) {
    return made_of_fields(py::class_<T>(module, name), [](T&) {}, fields...);
}

// An object held by Python whose methods share scratch. While one call works on it, a call from another thread is refused;
// calls release the interpreter's lock.
template <typename Object>
struct OneCall : Object {
    using Object::Object;
    std::atomic_flag busy = ATOMIC_FLAG_INIT;
};

template <typename Object, typename Result, typename... Arguments>
auto one_call(Result (*function)(Object&, Arguments...)) {
    return [function](OneCall<Object>& object, Arguments... arguments) -> Result {
        if (object.busy.test_and_set(std::memory_order_acquire)) throw std::runtime_error("in use by another call");
        const std::unique_ptr<std::atomic_flag, void (*)(std::atomic_flag*)> claim(
            &object.busy, [](std::atomic_flag* busy) { busy->clear(std::memory_order_release); });
        return function(object, std::forward<Arguments>(arguments)...);
    };
}

// A batch from the fields of a Nest in their order: six, or eight with residuals.
inline Batch batch_of(const Layer& layer, const py::sequence& nest) {
    if (nest.size() != 6 && nest.size() != 8) throw std::invalid_argument("a nest of 6 or 8 arrays");
    const auto arrays = py::reinterpret_steal<py::tuple>(PySequence_Tuple(nest.ptr()));
    const auto owned = std::make_shared<std::vector<py::object>>();
    Batch batch;
    const auto take = [&](auto*& into, std::size_t at, int rows, const char* name) {
        const auto cells = Array<std::decay_t<decltype(*into)>>::ensure(arrays[at]);
        if (!cells) throw py::type_error(std::string(name) + ": no array of such numbers");
        if (at == 0) batch.size = std::size_t(cells.ndim() == 3 ? cells.shape(2) : 0);
        into = cells_of(cells, layer.levels, rows, batch.size, name);
        owned->push_back(cells);
    };
    take(batch.factor[TEMPORAL], 0, layer.dims, "temporal");
    take(batch.factor[SPATIAL], 1, layer.dims, "spatial");
    take(batch.order[TEMPORAL], 2, layer.dims, "order");
    take(batch.keep, 3, layer.tensors, "keep");
    take(batch.on_y, 4, layer.dims, "on_y");
    take(batch.order[SPATIAL], 5, layer.dims, "spatial_order");
    if (arrays.size() == 8) {
        take(batch.last[TEMPORAL], 6, layer.dims, "temporal_last");
        take(batch.last[SPATIAL], 7, layer.dims, "spatial_last");
    }
    batch.owner = owned;
    return batch;
}

template <typename T>
using Given = std::optional<Array<T>>;

inline RoomColumns rooms_of(const Layer& layer, const Given<double>& words, const Given<bool>& counted, std::size_t size) {
    if (!words) return {};
    need(counted && words->ndim() == 2 && words->shape(0) == layer.levels && std::size_t(words->shape(1)) == size, "room",
         ": wrong shape");
    return {size, words->data(), cells_of(*counted, layer.levels, layer.tensors, size, "room")};
}

// Mappings as the arrays of a Nest, in their order.
inline py::tuple nest_arrays(const Layer& layer, const std::vector<const Mapping*>& mappings, bool residual) {
    const std::size_t size = mappings.size(), levels = layer.levels, dims = layer.dims;
    const auto array = [&](auto zero, std::size_t rows, auto cell) {
        Array<decltype(zero)> made({levels, rows, size});
        for (std::size_t at = 0; at < levels * rows; ++at)
            for (std::size_t b = 0; b < size; ++b) made.mutable_data()[at * size + b] = cell(*mappings[b], at);
        return made;
    };
    const auto factors = [&](int half, auto of) {
        return array(0.0, dims, [=](const Mapping& own, std::size_t at) { return (own.*of)[at + (at / dims + half) * dims]; });
    };
    const auto flat = [&](auto zero, std::size_t rows, auto of) {
        return array(zero, rows, [=](const Mapping& own, std::size_t at) { return decltype(zero)((own.*of)[at]); });
    };
    const py::tuple nest = py::make_tuple(
        factors(TEMPORAL, &Mapping::factor), factors(SPATIAL, &Mapping::factor), flat(std::int64_t(), dims, &Mapping::order),
        flat(false, layer.tensors, &Mapping::keep), flat(false, dims, &Mapping::on_y),
        flat(std::int64_t(), dims, &Mapping::spatial_order));
    return residual ? py::tuple(nest + py::make_tuple(factors(TEMPORAL, &Mapping::last), factors(SPATIAL, &Mapping::last))) : nest;
}

inline void need_layer_of(const MapSpace& space, const Layer& layer) {
    need(space.places == layer.places() && space.dims == layer.dims && space.tensors == layer.tensors, "space",
         ": of another layer");
}

// Parts of the module; `_kernel.pyi` has their signatures.
void add_sparse(py::module_& module);
void add_draw(py::module_& module);
void add_estimates(py::module_& module);
void add_proofs(py::module_& module);

}  // namespace fadiff
