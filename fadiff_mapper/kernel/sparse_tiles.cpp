#include "sparse_tiles.hpp"

#include <algorithm>

#include "tiles.hpp"

namespace fadiff::sparse {

double words_of(const DataSpace& space, const double* points) {
    double words = 1;
    for (const Rank& rank : space.ranks) words *= extent(rank, points);
    return words;
}

static void add_loop(const SparseDesign& design, Nest& nest, int dim, double bound, bool spatial) {
    const int dims = design.layer.dims;
    int row = nest.loops.empty() ? 0 : nest.loops.back().row;
    if (bound != 1) {
        nest.points.resize(std::size_t(row + 2) * dims);
        double* inside = nest.points.data() + std::size_t(row) * dims;
        std::copy_n(inside, dims, inside + dims);
        inside[dims + dim] *= bound;
        ++row;
    }
    nest.loops.push_back({dim, spatial, bound, row});
}

// Spatial loops along X, then along Y, where the hardware has a fan-out; then temporal ones.
static void list_loops(const SparseDesign& design, const Mapping& mapping, Nest& nest) {
    const int dims = design.layer.dims, levels = design.layer.levels;
    nest.loops.clear();
    nest.points.assign(dims, 1.0);
    nest.first.assign(levels + 1, 0);
    for (int level = 0; level < levels; ++level) {
        nest.first[level] = int(nest.loops.size());
        const std::size_t at = std::size_t(level) * dims;
        const double *spatial = mapping.spatial(level, dims), *temporal = mapping.temporal(level, dims);
        for (int axis = 0; axis < 2 && design.levels[level].has_fanout; ++axis)
            for (int i = 0; i < dims; ++i) {
                const int d = mapping.spatial_order[at + i];
                if (bool(mapping.on_y[at + d]) == bool(axis)) add_loop(design, nest, d, spatial[d], true);
            }
        for (int i = 0; i < dims; ++i) {
            const int d = mapping.order[at + i];
            add_loop(design, nest, d, temporal[d], false);
        }
    }
    nest.first[levels] = int(nest.loops.size());
}

// Timeloop's first check: whether levels can do the (de)compression that formats on both sides ask for.
static bool converts(const SparseDesign& design, const StoredTile& outer, const StoredTile& inner, int level, bool written) {
    const std::size_t parent = outer.compressed() ? outer.format->ranks.size() : 0;
    const std::size_t own = inner.compressed() ? inner.format->ranks.size() : 0;
    if (parent && !own && (!design.levels[level].decompresses || (written && !design.levels[level].compresses))) return false;
    return !parent || parent >= own;
}

// A loop between a tile and its child that moves the data space.
struct RelevantLoop {
    int dim;
    double bound;
    int row;
    bool trivial() const { return bound == 1; }
};

// Builds the tree of one tile.
class TreeBuilder {
public:
    TreeBuilder(const SparseDesign& design, const Nest& nest, int tensor, int level, const StoredTile& tile,
                const FiberTree* tiled_by)
        : layer_(design.layer), nest_(nest), space_(design.layer.spaces[tensor]), format_(tile.format), child_(tiled_by) {
        const int inside = tile.child < 0 ? 0 : tile.child + 1;
        for (int i = nest.first[inside]; i < nest.first[level + 1]; ++i) {
            const NestLoop& loop = nest.loops[i];
            if (space_.relevant >> loop.dim & 1) loops_.push_back({loop.dim, loop.bound, loop.row});
        }
        if (child_ || !inside) return;
        // Without the child's ranks the innermost loop of each dimension stands for everything inside it, too.
        const double* points = nest.box(nest.row_of(inside - 1), layer_.dims);
        Dims done = 0;
        for (RelevantLoop& loop : loops_) {
            if (!(done >> loop.dim & 1)) loop.bound *= points[loop.dim];
            done |= Dims(1) << loop.dim;
        }
    }

    // False where loops are left over.
    bool build(FiberTree& tree) {
        const int given = child_ ? child_->ranks : 0;
        rules_ = (format_ ? int(format_->ranks.size()) : 1) - given;
        first_rule_ = given;
        const bool inwards = !format_ || !format_->inner_to_outer;
        if (!(inwards ? outer_to_inner() : inner_to_outer())) return false;
        tree.inner_to_outer = !inwards;
        tree.ranks = given + int(fibers_.size());
        if (tree.ranks > MOST_RANKS) return false;
        tree.below[0] = 1;
        for (int i = 0; i < given; ++i) tree.fibers[i] = child_->fibers[i];
        for (int i = 0; i <= given && child_; ++i) tree.below[i] = child_->below[i];
        for (std::size_t i = 0; i < fibers_.size(); ++i) {
            tree.fibers[given + i] = fibers_[i];
            tree.below[given + i + 1] = boxes_[i];
        }
        return true;
    }

private:
    double words_at(int row) const { return words_of(space_, nest_.box(row, layer_.dims)); }

    int skip_trivial(int at, int step) const {
        while (at >= 0 && at < int(loops_.size()) && loops_[at].trivial()) at += step;
        return at;
    }

    // The words that the loops of one rank from `at` on span; 0 where its rule forbids the first. Moves `at` on.
    double take(int& at, int step, int rule) {
        double points[64];
        std::fill_n(points, layer_.dims, 1.0);
        const Dims dim = Dims(1) << loops_[at].dim;
        Dims group = ~Dims(0);
        if (format_) {
            const std::vector<Dims>& groups = format_->ranks[rule].groups;
            const auto own = std::find_if(groups.begin(), groups.end(), [&](Dims dims) { return (dims & dim) != 0; });
            if (!groups.empty() && own == groups.end()) return 0;
            group = groups.empty() ? 0 : *own;
        }
        points[loops_[at].dim] *= loops_[at].bound;
        at += step;
        const bool single = format_ && format_->ranks[rule].groups.empty();
        while (!single && at >= 0 && at < int(loops_.size()) && (group >> loops_[at].dim & 1 || loops_[at].trivial())) {
            points[loops_[at].dim] *= loops_[at].bound;
            at += step;
        }
        return words_of(space_, points);
    }

    // The outermost rank takes the outermost loop; inner ranks may stay empty. A rank whose rule does not allow the loop
    // at hand stays empty and is listed behind all others, as Timeloop does.
    bool outer_to_inner() {
        int at = int(loops_.size()) - 1, rank = rules_;
        while (rank > 0 && (at = skip_trivial(at, -1)) >= 0) {
            --rank;
            const int start = at;
            const double words = take(at, -1, first_rule_ + rank);
            if (words == 0) {
                fibers_.push_back(1), boxes_.push_back(words_at(loops_[0].row));
                continue;
            }
            fibers_.insert(fibers_.begin(), words);
            boxes_.insert(boxes_.begin(), words_at(loops_[start].row));
        }
        if (skip_trivial(at, -1) >= 0) return false;
        fibers_.insert(fibers_.begin(), rank, 1.0);
        boxes_.insert(boxes_.begin(), rank, rank ? words_at(loops_[0].row) : 0.0);
        return true;
    }

    // The innermost rank takes the innermost loop; outer ranks may stay empty.
    bool inner_to_outer() {
        const int end = int(loops_.size());
        int at = 0;
        while (int(fibers_.size()) < rules_ && (at = skip_trivial(at, 1)) < end) {
            const int start = at;
            const double words = take(at, 1, first_rule_ + int(fibers_.size()));
            fibers_.push_back(words == 0 ? 1 : words);
            boxes_.push_back(words == 0 ? 1 : words_at(loops_[start].row));
        }
        const int missing = rules_ - int(fibers_.size());
        if (skip_trivial(at, 1) < end) return false;
        fibers_.insert(fibers_.end(), std::max(missing, 0), 1.0);
        boxes_.insert(boxes_.end(), std::max(missing, 0), missing > 0 ? words_at(loops_[0].row) : 0.0);
        return true;
    }

    const Layer& layer_;
    const Nest& nest_;
    const DataSpace& space_;
    const Representation* format_;
    const FiberTree* child_;
    int rules_ = 0, first_rule_ = 0;
    std::vector<RelevantLoop> loops_;
    std::vector<double> fibers_, boxes_;
};

// Whether a compressed tile must consist of its child's tiles, so that its inner ranks are the child's (pretiling).
static bool is_pretiled(const StoredTile& tile, const StoredTile& child) { return tile.compressed() && child.words > 1; }

static bool ranks_align(const StoredTile& tile, const StoredTile& child) {
    const std::size_t inner = child.format ? child.format->ranks.size() : 1;
    if (inner > tile.format->ranks.size()) return false;
    for (std::size_t i = 0; child.compressed() && i < inner; ++i)
        if (child.format->ranks[i].kind != tile.format->ranks[i].kind) return false;
    return true;
}

static bool plant_trees(const SparseDesign& design, int t, MappedTiles& into) {
    const int tensors = design.layer.tensors;
    for (int level = 0; level < design.layer.levels; ++level) {
        StoredTile& tile = into.tiles[std::size_t(level) * tensors + t];
        if (!tile.kept) continue;
        const StoredTile* child = tile.child < 0 ? nullptr : &into.tiles[std::size_t(tile.child) * tensors + t];
        const bool pretiled = child && is_pretiled(tile, *child);
        if (pretiled && !ranks_align(tile, *child)) return false;
        // Plain tiles need a tree only as the innermost rank of a compressed parent.
        const StoredTile* parent = tile.parent < 0 ? nullptr : &into.tiles[std::size_t(tile.parent) * tensors + t];
        if (!tile.format && !(parent && is_pretiled(*parent, tile))) continue;
        TreeBuilder builder(design, into.nest, t, level, tile, pretiled ? &child->tree : nullptr);
        if (!builder.build(tile.tree)) return false;
    }
    return true;
}

bool lay_sparse_tiles(const SparseDesign& design, const Mapping& mapping, MappedTiles& into) {
    const Layer& layer = design.layer;
    into.tiles.resize(std::size_t(layer.levels) * layer.tensors);
    for (int t = 0; t < layer.tensors; ++t) {
        int child = -1;
        for (int level = 0; level < layer.levels; ++level) {
            StoredTile& tile = into.tiles[std::size_t(level) * layer.tensors + t];
            tile.kept = mapping.keep[std::size_t(level) * layer.tensors + t];
            tile.child = tile.parent = -1;
            tile.format = tile.kept ? design.format(level, t) : nullptr;
            if (!tile.kept) continue;
            tile.child = child;
            if (child >= 0) {
                StoredTile& inner = into.tiles[std::size_t(child) * layer.tensors + t];
                inner.parent = level;
                if (!converts(design, tile, inner, child, layer.spaces[t].written)) return false;
            }
            child = level;
        }
        if (child < 0) return false;
    }
    list_loops(design, mapping, into.nest);
    for (int level = 0; level < layer.levels; ++level) {
        const double* points = into.nest.box(into.nest.row_of(level), layer.dims);
        for (int t = 0; t < layer.tensors; ++t) {
            StoredTile& tile = into.tiles[std::size_t(level) * layer.tensors + t];
            if (tile.kept) tile.words = words_of(layer.spaces[t], points);
        }
    }
    for (int t = 0; t < layer.tensors && design.formatted; ++t)
        if (!plant_trees(design, t, into)) return false;
    return true;
}

}  // namespace fadiff::sparse
