#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/detail/tensor/module_tensors.h"

namespace lockstep {

/// Notices a program that updates weights by what torch::autograd::grad returns: gradients of this rank's loss alone,
/// because only those that backward adds to `grad` are averaged. Replicas then drift apart, and no synchronised
/// backward follows that would compare them.
///
/// A program may average such gradients itself: if at least as many elements were reduced since as these parameters
/// have, nothing is reported. Not collective. Reads one number of each parameter, and only after such a call.
class CapturedGradients {
 public:
  explicit CapturedGradients(std::vector<NamedTensor> parameters);

  /// Call it in a backward that has begun at an output: does autograd keep gradients of parameters for the caller?
  void look_at_backward();
  /// Backward has added to a gradient.
  void gradient_arrived() {
    captured_.reset();
    ever_arrived_ = true;
  }
  /// What to report if weights were written since such gradients were made; once.
  std::optional<std::string> take_report();
  /// What to report at the end, if backward has never added to a gradient although every weight was written again and
  /// again: a model that is called by itself shows no outputs.
  std::optional<std::string> report_of_end() const;

 private:
  struct Captured {
    std::vector<std::size_t> parameters;
    std::vector<std::uint32_t> versions;  // of these, at that time
    std::int64_t numel = 0;               // of these, together
    std::int64_t reduced_elements = 0;    // by then
  };

  void add(Captured& captured, std::size_t parameter) const;
  /// Whether parameters were written since, some of them or all so many times, and not brought together.
  bool are_used(const Captured& since, bool all, std::uint32_t writes) const;

  std::vector<NamedTensor> parameters_;
  Captured begin_;  // all, at the construction
  std::optional<Captured> captured_;
  bool has_reported_ = false;
  bool ever_arrived_ = false;
};

}  // namespace lockstep
