#pragma once

#include <optional>

namespace lockstep {

/// What no matrix product on one core can exceed: multiplications and additions of numbers that stay in registers, by
/// the widest instructions for the type. Nothing if the bound of this processor's instructions is not known.
struct ProductBound {
  std::optional<double> fp32_gflops;
  std::optional<double> bf16_gflops;  ///< not of AMX, whose tiles are faster than AVX512_BF16
};

/// Measures for about 50 ms.
ProductBound measure_product_bound();

}  // namespace lockstep
