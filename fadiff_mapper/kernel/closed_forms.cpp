#include "closed_forms.hpp"

#include "loop_cuts.hpp"

namespace fadiff {

ClosedForms closed_forms(const FusedSegment& segment, const std::vector<int>& dims, const std::vector<double>& sizes,
                         const std::vector<Loops64>& retained, int index, int tensor, Loops64 across) {
    const FusedLayer& layer = segment.layers[index];
    const int layers = int(segment.layers.size()), loops = int(dims.size());
    const std::vector<Lanes> own_sizes(sizes.begin(), sizes.end());
    std::vector<LoopCut> cuts(std::size_t(layers) * loops);
    cut_layers(segment, dims, own_sizes.data(), retained, cuts.data());
    const LoopCut* own = cuts.data() + std::size_t(index) * loops;
    ClosedForms forms{{}, computed(layer, own, loops)[0], fetched(layer, tensor, own, loops, across)[0],
                      held(layer, tensor, own, loops, across)[0], 0, 0};
    for (int loop = 0; loop < loops; ++loop)
        forms.loops.push_back({own[loop].steps[0], own[loop].points[0], own[loop].largest()[0], own[loop].needed[0]});
    if (index + 1 < layers) {
        forms.lying = held(layer, layer.output, own, loops, across, &segment.links[index])[0];
        forms.outlasting = outlasting(layer, own, loops, across, segment.links[index])[0];
    }
    return forms;
}

}  // namespace fadiff
