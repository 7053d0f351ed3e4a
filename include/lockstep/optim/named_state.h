#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Parameters and the names that they are saved under: `model->named_parameters().pairs()`.
using NamedParameters = std::vector<std::pair<std::string, at::Tensor>>;

/// What an optimizer keeps for one parameter, or for the part of it that this rank updates.
struct ParameterState {
  std::vector<std::int64_t> sizes;  ///< of the whole parameter
  std::int64_t begin = 0;           ///< elements [begin, end) are here, counted in row-major order
  std::int64_t end = 0;
  std::int64_t step = 0;  ///< updates made so far
  /// PyTorch's names: "momentum_buffer"; "exp_avg", "exp_avg_sq", "max_exp_avg_sq". Of the parameter's shape where all
  /// of it is here, else [end - begin].
  std::map<std::string, at::Tensor> tensors;

  std::int64_t numel() const;  ///< of the whole parameter
  bool is_whole() const { return begin == 0 && end == numel(); }
};

/// State by parameter name. It says nothing of how memory was laid out: it may be loaded into an optimizer whose
/// parameters are cut or ordered in another way.
using NamedState = std::map<std::string, ParameterState>;

/// Joins what the ranks of a sharded optimizer hold. Parts are copied; what is whole already is not.
/// @return  every parameter whole
/// @throws Error  that names the parameter, if parts leave a gap, overlap, or differ in shape, step or kind of state
NamedState merge_states(const std::vector<NamedState>& parts);

}  // namespace lockstep
