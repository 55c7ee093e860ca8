#include "fused_segment.hpp"

#include <algorithm>
#include <utility>

namespace fadiff {

const Rank& FusedSpace::moved_by(int dim) const {
    return *std::find_if(ranks.begin(), ranks.end(), [dim](const Rank& rank) { return rank.dims >> dim & 1; });
}

static std::shared_ptr<const BusyLanes> busy_lanes(double bound, double lanes) {
    BusyLanes busy(std::size_t(bound) + 1, 1 / lanes);
    for (std::size_t size = 2; double(size) <= lanes && size < busy.size(); ++size)
        for (std::size_t points = size; points < busy.size(); points += size) busy[points] = double(size) / lanes;
    return std::make_shared<const BusyLanes>(std::move(busy));
}

void FusedLayer::know(double compute, std::vector<double> lanes) {
    SideBySide own{compute, std::move(lanes), {}};
    for (int dim = 0; dim < dims(); ++dim) {
        const auto same = std::find_if(known.begin(), known.end(),
                                       [&](const SideBySide& other) { return other.lanes[dim] == own.lanes[dim]; });
        own.busy.push_back(own.lanes[dim] <= 1 ? nullptr
                           : same != known.end() ? same->busy[dim] : busy_lanes(bounds[dim], own.lanes[dim]));
    }
    known.push_back(std::move(own));
}

}  // namespace fadiff
