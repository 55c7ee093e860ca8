#include "fused_segment.hpp"

#include <algorithm>
#include <utility>

namespace fadiff {

const Rank& FusedSpace::moved_by(int dim) const {
    return *std::find_if(ranks.begin(), ranks.end(), [dim](const Rank& rank) { return rank.dims >> dim & 1; });
}

// Points up to which parts are tabulated, 0.5 MB for each number of lanes: above most bounds, a plain limit on memory.
static const double TABULATED = 1 << 16;

BusyLanes::BusyLanes(double bound, double lanes)
    : lanes_(lanes), table_(std::size_t(std::min(bound, TABULATED)) + 1, 1 / lanes) {
    for (std::size_t size = 2; double(size) <= lanes && size < table_.size(); ++size)
        for (std::size_t points = size; points < table_.size(); points += size) table_[points] = double(size) / lanes;
}

double BusyLanes::sought(std::size_t points) const {
    for (std::size_t size = std::min(points, std::size_t(lanes_)); size > 1; --size)
        if (points % size == 0) return double(size) / lanes_;
    return 1 / lanes_;
}

void FusedLayer::know(double compute, std::vector<double> lanes) {
    SideBySide own{compute, std::move(lanes), {}};
    for (int dim = 0; dim < dims(); ++dim) {
        const auto same = std::find_if(known.begin(), known.end(),
                                       [&](const SideBySide& other) { return other.lanes[dim] == own.lanes[dim]; });
        own.busy.push_back(own.lanes[dim] <= 1 ? nullptr
                           : same != known.end() ? same->busy[dim]
                           : std::make_shared<const BusyLanes>(bounds[dim], own.lanes[dim]));
    }
    known.push_back(std::move(own));
}

}  // namespace fadiff
