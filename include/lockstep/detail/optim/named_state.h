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

/// An optimizer's state for one parameter, or for the part of it that this rank updates.
struct ParameterState {
  std::vector<std::int64_t> sizes;  ///< shape of the whole parameter
  std::int64_t begin = 0;           ///< this part holds elements [begin, end), counted in row-major order
  std::int64_t end = 0;
  std::int64_t step = 0;  ///< updates made so far
  /// By PyTorch's names: "momentum_buffer"; "exp_avg", "exp_avg_sq", "max_exp_avg_sq". They have the parameter's shape
  /// if the part is the whole parameter, else [end - begin].
  std::map<std::string, at::Tensor> tensors;

  std::int64_t numel() const;  ///< elements of the whole parameter
  bool is_whole() const { return begin == 0 && end == numel(); }
};

/// State by parameter name. It does not depend on the memory layout: an optimizer whose parameters are partitioned or
/// ordered in another way can load it.
using NamedState = std::map<std::string, ParameterState>;

/// Joins the state that the ranks of a sharded optimizer hold. Parts are copied; whole entries are not.
/// @return  the whole state of every parameter
/// @throws Error  that names the parameter, if parts leave a gap, overlap, or differ in shape, step or kind of state
NamedState merge_states(const std::vector<NamedState>& parts);

/// Elements [begin, end) of one parameter's state, from the parts of it that ranks hold; the order of `parts` is free.
/// The tensors have the shape [end - begin]. They are views of a part that has all of these elements, else copies.
/// @throws Error  as `merge_states`, and if an element is in no part
ParameterState cut_state(const std::string& name, const std::vector<const ParameterState*>& parts, std::int64_t begin,
                         std::int64_t end);

}  // namespace lockstep
