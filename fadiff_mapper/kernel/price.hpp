// The price of a part of a network: its share in the network's energy plus that in its cycles.
//
// To first order the change of the logarithm of the network's EDP (fusion/prices.py).

#pragma once

namespace fadiff {

// Energy and cycles of the whole network, by which those of a part are divided; infinite where they do not count.
struct Price {
    double energy, cycles;

    template <typename Number>
    Number of(Number pj, Number some) const {
        return pj / energy + some / cycles;
    }
};

}  // namespace fadiff
