#include "sparse.hpp"

#include <algorithm>

namespace fadiff::sparse {

Box box_of(const SparseDesign& design, int tensor, const double* points) {
    const DataSpace& space = design.layer.spaces[tensor];
    Box box;
    box.words = volume(space, points);
    if (design.models[tensor].kind == DensityModel::BANDED) box.rows = extent(space.ranks[0], points);
    return box;
}

static void list_loops(const Layer& layer, const MappingPack& pack, int lane, Nest& nest) {
    const int dims = layer.dims, levels = layer.levels, most = 2 * levels * dims;
    const int width = (dims + BOX_BLOCK - 1) / BOX_BLOCK * BOX_BLOCK;
    nest.width = width;
    nest.loops.resize(most), nest.points.resize(std::size_t(most + 1) * width), nest.first.resize(levels + 1);
    NestLoop* loop = nest.loops.data();
    double* box = nest.points.data();
    std::fill_n(box, width, 1.0);
    for (int level = 0; level < levels; ++level) {
        nest.first[level] = int(loop - nest.loops.data());
        const auto add = [&](NestLoop own) {
            if (own.bound == 1) return;
            copy_points(box, width, box + width);
            box += width;
            box[own.dim] *= own.bound;
            own.row = int(loop - nest.loops.data()) + 1;
            *loop++ = own;
        };
        each_loop(layer, pack, lane, level, pack.spatial_dims(level), pack.temporal_dims(level), add);
    }
    nest.first[levels] = int(loop - nest.loops.data());
}

// Whether levels can do the (de)compression that formats on both sides ask for.
static bool converts(const SparseDesign& design, const StoredTile& outer, const StoredTile& inner, int level, bool written) {
    const std::size_t parent = outer.compressed() ? outer.format->ranks.size() : 0;
    const std::size_t own = inner.compressed() ? inner.format->ranks.size() : 0;
    if (parent && !own && (!design.levels[level].decompresses || (written && !design.levels[level].compresses))) return false;
    return !parent || parent >= own;
}

// Builds the tree of one tile.
class TreeBuilder {
public:
    TreeBuilder(const SparseDesign& design, const MappingPack& pack, int lane, const Nest& nest, int tensor, int level,
                const StoredTile& tile, const FiberTree* tiled_by)
        : design_(design), pack_(pack), lane_(lane), nest_(nest), tensor_(tensor), space_(design.layer.spaces[tensor]),
          inside_(tile.child < 0 ? 0 : tile.child + 1), format_(tile.format), child_(tiled_by) {
        int at = nest_.first[inside_];
        if (!child_ && inside_) {
            // Without the child's ranks the innermost loop of each dimension stands for everything inside it, too.
            const double* points = nest_.box(at);
            Dims met = 0;
            each_loop(design.layer, pack, lane, inside_, all_, all_, [&](NestLoop loop) {
                at += loop.bound != 1;
                if (!(space_.relevant >> loop.dim & 1)) return;
                if (!(met >> loop.dim & 1)) loop.bound *= points[loop.dim];
                met |= Dims(1) << loop.dim;
                loop.row = at;
                if (loop.bound != 1) loops_[count_++] = loop;
            });
        }
        for (; at < nest_.first[level + 1]; ++at)
            if (space_.relevant >> nest_.loops[at].dim & 1) loops_[count_++] = nest_.loops[at];
    }

    // False where loops are left over.
    bool build(FiberTree& tree) {
        const int given = child_ ? child_->ranks : 0;
        rules_ = (format_ ? int(format_->ranks.size()) : 1) - given;
        tree.ranks = given + rules_;
        tree.below[0] = Box();
        for (int i = 0; i < given; ++i) tree.fibers[i] = child_->fibers[i];
        for (int i = 0; i <= given && child_; ++i) tree.below[i] = child_->below[i];
        fibers_ = tree.fibers + given, boxes_ = tree.below + given + 1;
        return format_ && format_->inner_to_outer ? inner_to_outer(given) : outer_to_inner(given);
    }

private:
    Box box_at(int row) const { return box_of(design_, tensor_, nest_.box(row)); }

    // The box of the innermost loop that moves the data space, which may have a bound of 1.
    Box innermost_box() const {
        bool met = false;
        int row = nest_.first[inside_];
        each_loop(design_.layer, pack_, lane_, inside_, all_, all_, [&](NestLoop loop) {
            row += !met && loop.bound != 1;
            met |= space_.relevant >> loop.dim & 1;
        });
        return box_at(row);
    }

    // The words that the loops of one rank from `at` on span; 0 where its rule forbids the first. Moves `at` on.
    double take(int& at, int step, int rule) {
        Dims group = ~Dims(0);
        if (format_ && format_->ranks[rule].groups.empty()) {
            group = 0;
        } else if (format_) {
            const Dims dim = Dims(1) << loops_[at].dim;
            const std::vector<Dims>& groups = format_->ranks[rule].groups;
            const auto own = std::find_if(groups.begin(), groups.end(), [&](Dims dims) { return (dims & dim) != 0; });
            if (own == groups.end()) return 0;
            group = *own;
        }
        double points[MOST_DIMS];
        std::fill_n(points, design_.layer.dims, 1.0);
        do {
            points[loops_[at].dim] *= loops_[at].bound;
            at += step;
        } while (at >= 0 && at < count_ && (group >> loops_[at].dim & 1));
        return volume(space_, points);
    }

    // The outermost rank takes the outermost loop; inner ranks may stay empty. A rank whose rule does not allow the loop
    // at hand stays empty and is listed behind all others, as Timeloop does.
    bool outer_to_inner(int given) {
        int at = count_ - 1, rank = rules_, taken = 0;
        double words[MOST_RANKS];
        int rows[MOST_RANKS];
        for (; rank > 0 && at >= 0; --rank) {
            rows[taken] = loops_[at].row;
            words[taken] = take(at, -1, given + rank - 1);
            taken += words[taken] != 0;
        }
        if (at >= 0) return false;
        if (taken < rules_) std::fill_n(fibers_, rules_, 1.0), std::fill_n(boxes_, rules_, innermost_box());
        for (int i = rank; taken > 0; ++i) {
            --taken;
            fibers_[i] = words[taken], boxes_[i] = box_at(rows[taken]);
        }
        return true;
    }

    // The innermost rank takes the innermost loop; outer ranks may stay empty.
    bool inner_to_outer(int given) {
        int at = 0, rank = 0;
        for (; rank < rules_ && at < count_; ++rank) {
            const int start = at;
            const double words = take(at, 1, given + rank);
            fibers_[rank] = words == 0 ? 1 : words, boxes_[rank] = words == 0 ? Box() : box_at(loops_[start].row);
        }
        if (rank < rules_) {
            const Box innermost = innermost_box();
            std::fill(fibers_ + rank, fibers_ + rules_, 1.0), std::fill(boxes_ + rank, boxes_ + rules_, innermost);
        }
        return at >= count_;
    }

    const SparseDesign& design_;
    const MappingPack& pack_;
    int lane_;
    const Nest& nest_;
    int tensor_;
    const DataSpace& space_;
    const Dims all_ = ~Dims(0) >> (64 - design_.layer.dims);
    int inside_;                      // the innermost level whose loops count
    const Representation* format_;
    const FiberTree* child_;
    int rules_ = 0, count_ = 0;
    NestLoop loops_[MOST_LOOPS];      // of a bound above 1 between the tile and its child that move the data space
    double* fibers_ = nullptr;
    Box* boxes_ = nullptr;
};

// Whether a compressed tile must consist of its child's tiles, so that its inner ranks are the child's (pretiling).
static bool is_pretiled(const StoredTile& tile, const StoredTile& child) { return tile.compressed() && child.box.words > 1; }

static bool ranks_align(const StoredTile& tile, const StoredTile& child) {
    const std::size_t inner = child.format ? child.format->ranks.size() : 1;
    if (inner > tile.format->ranks.size()) return false;
    for (std::size_t i = 0; child.compressed() && i < inner; ++i)
        if (child.format->ranks[i].kind != tile.format->ranks[i].kind) return false;
    return true;
}

static bool plant_trees(const SparseDesign& design, const MappingPack& pack, int lane, int t, MappedTiles& into) {
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
        TreeBuilder builder(design, pack, lane, into.nest, t, level, tile, pretiled ? &child->tree : nullptr);
        if (!builder.build(tile.tree)) return false;
    }
    return true;
}

bool lay_sparse_tiles(const SparseDesign& design, const MappingPack& pack, const Tiles& dense, int lane, MappedTiles& into) {
    const Layer& layer = design.layer;
    into.tiles.resize(std::size_t(layer.levels) * layer.tensors);
    for (int t = 0; t < layer.tensors; ++t) {
        int child = -1;
        for (int level = 0; level < layer.levels; ++level) {
            StoredTile& tile = into.tiles[std::size_t(level) * layer.tensors + t];
            tile.kept = pack.keep[std::size_t(level) * layer.tensors + t][lane];
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
    list_loops(layer, pack, lane, into.nest);
    for (int level = 0; level < layer.levels; ++level)
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            StoredTile& tile = into.tiles[cell];
            if (design.models[t].kind == DensityModel::BANDED) tile.box = box_of(design, t, into.nest.box(into.nest.row_of(level)));
            else tile.box.words = dense.size[cell][lane];
        }
    for (int t = 0; t < layer.tensors && design.formatted; ++t)
        if (!plant_trees(design, pack, lane, t, into)) return false;
    return true;
}

}  // namespace fadiff::sparse
