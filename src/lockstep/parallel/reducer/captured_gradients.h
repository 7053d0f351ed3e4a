#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/fused/tensor_sample.h"

namespace lockstep {

/// Notices a program that updates weights by what torch::autograd::grad returns: gradients of this rank's loss alone,
/// because only those that backward adds to `grad` are averaged. Replicas then drift apart, and no synchronised
/// backward follows that would compare them.
///
/// The same of a program whose backwards are all in no_sync: these add to `grad`, and average nothing.
///
/// A program may average such gradients itself: if it has reduced at least as many elements since as these parameters
/// have, nothing is reported. Not collective. Reads a few numbers of each parameter, and only around such a call or
/// before the first backward that is synchronised.
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
  /// A backward that is not synchronised has added to the gradient of the parameter, which nobody else averages.
  /// @param may_be_all  no backward was synchronised yet
  void arrived_alone(std::size_t parameter, bool may_be_all);
  /// What to report at the end, if nothing was averaged although weights were written again and again. Either backward
  /// has never added to a gradient, as by a model that is called by itself and shows no outputs, or it was not
  /// synchronised.
  /// @param was_synchronised  a backward was. @param is_elsewhere  another wrapper has averaged the parameter's
  /// gradient
  std::optional<std::string> report_of_end(bool was_synchronised, const std::function<bool(std::size_t)>& is_elsewhere);

 private:
  struct Captured {
    std::vector<std::size_t> parameters;
    std::vector<std::uint64_t> writes;  // of these, by then
    std::int64_t numel = 0;             // of these, together
    std::int64_t reduced_elements = 0;  // by then
  };

  void add(Captured& captured, std::size_t parameter);
  std::optional<std::string> report_of_no_sync(const std::function<bool(std::size_t)>& is_elsewhere);
  /// Whether parameters were written since, some of them or all so many times, and not brought together.
  bool are_used(const Captured& since, bool all, std::uint64_t writes);

  std::vector<NamedTensor> parameters_;
  std::vector<WriteCount> writes_;  // by parameter
  Captured begin_;                  // all, at the construction
  std::optional<Captured> captured_;
  bool has_reported_ = false;
  bool ever_arrived_ = false;
  std::vector<bool> alone_;  // by parameter
};

}  // namespace lockstep
