#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

namespace lockstep {

/// What keeps copies of parameters in the type in which forward computes. Thread-safe for different parameters.
class ComputeCopySource {
 public:
  virtual ~ComputeCopySource() = default;
  /// The copy of `parameter`, if it is what a cast of the present values would give; else undefined.
  virtual at::Tensor current_copy(const at::Tensor& parameter) = 0;
  /// Whether copies are in memory only while an operation of LibTorch reads them. Their addresses must not be read, and
  /// they are never out of date.
  virtual bool are_gathered() const { return false; }
};

/// While it lives, `compute_copy` asks `source` for these parameters' copies.
class [[nodiscard]] ComputeCopyOffer {
 public:
  /// What is given must outlive this object.
  ComputeCopyOffer(const std::vector<at::Tensor>& parameters, ComputeCopySource& source);
  ~ComputeCopyOffer();
  ComputeCopyOffer(const ComputeCopyOffer&) = delete;
  ComputeCopyOffer& operator=(const ComputeCopyOffer&) = delete;

 private:
  std::vector<const c10::TensorImpl*> parameters_;
};

/// While it lives, and autograd does not record where it was made, `compute_copy` casts on this thread, unless copies
/// are gathered. An update notices afterwards that a forward has read a copy that was out of date in an element that
/// nobody looked at; a forward without a graph, as in an evaluation, would get another result and nobody would notice.
class [[nodiscard]] CopiesForGraphs {
 public:
  CopiesForGraphs();
  ~CopiesForGraphs();
  CopiesForGraphs(const CopiesForGraphs&) = delete;
  CopiesForGraphs& operator=(const CopiesForGraphs&) = delete;

 private:
  bool before_;
};

/// `parameter` as a tensor of `type`, for a computation without a graph: itself, a copy that somebody keeps (a fused
/// update publishes one), or a cast. Nobody may write to it. If autograd records a graph, it is a cast within the
/// graph.
at::Tensor compute_copy(const at::Tensor& parameter, at::ScalarType type);

/// Three parameters of equal sizes after each other: [a; b; c] along dimension 0, as compute_copy has them. It is a
/// view if their copies are neighbours in memory.
at::Tensor compute_copies_joined(const std::array<at::Tensor, 3>& parameters, at::ScalarType type);

/// The parameters' copies if they are gathered, else empty. A function saves these for its backward, because what
/// compute_copies_joined has made of them would stay in memory until then.
std::vector<at::Tensor> gathered_copies(const std::array<at::Tensor, 3>& parameters, at::ScalarType type);

}  // namespace lockstep
