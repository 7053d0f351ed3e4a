#include "lockstep/parallel/fused/fused_faults.h"

#include <algorithm>
#include <string>

#include "lockstep/parallel/agreement/reduce_marks.h"

namespace lockstep {
namespace {

// What happened, and what the program should do instead.
struct FaultText {
  std::string happened;
  std::string fix;
};

FaultText text_of(FusedFault fault, const std::string& parameter) {
  const std::string name = "parameter \"" + parameter + "\"";
  switch (fault) {
    case FusedFault::GradientChanged:
      return {
          "the gradient of " + name +
              " was changed after backward as torch::nn::utils::clip_grad_norm_, clip_grad_value_ and clamp_ do it: by "
              "what this rank computed, not by the average over the ranks, which only the step of a fused optimizer "
              "makes",
          "write lockstep::clip_grad_norm_(model->parameters(), max_norm), which clips by the norm of the average, "
          "or set StepOptions::max_norm; to clip by value, leave out fuse; to multiply by the same factor on every "
          "rank, write parameter.mutable_grad().mul_(factor), without data()"};
    case FusedFault::GradientWritten:
      return {
          "the gradient of " + name +
              " was written after backward had sent it: with stage 2 its owner has the sum of all ranks' gradients, "
              "and grad only stands for it",
          "write lockstep::clip_grad_norm_(model->parameters(), max_norm), or set StepOptions::max_norm or "
          "gradient_factor; if the program must read or write gradients, fuse with stage 1"};
    case FusedFault::GradientDropped:
      return {"the gradient of " + name +
                  " was dropped after backward had sent it, and other parameters' gradients were not: with stage 2 its "
                  "owner has the sum of all ranks' gradients, and cannot take this rank's out again",
              "call zero_grad() for all parameters of the fused optimizer; to leave a parameter out of a step, freeze "
              "it before forward, or fuse with stage 1"};
    case FusedFault::WeightWritten:
      return {name + " was written between backward and the step of the fused optimizer",
              "call step() of the optimizer that fuse was given, and of no other over the same parameters; to write "
              "weights by hand where a backward had no step, call its zero_grad() first, by its own type (not by "
              "torch::optim::Optimizer&)"};
    case FusedFault::WeightChanged:
      return {
          name +
              " was written between backward and the step of the fused optimizer: past autograd, or by another rank "
              "of this host, which shares the weights and may have been between two steps",
          "call step() of the optimizer that fuse was given, and of no other over the same parameters; to write "
          "weights by hand between two steps, call own_weights() of what fuse has returned on every rank "
          "first, so that no rank writes what another one computes with"};
    case FusedFault::WeightMoved:
      return {name + " was moved to other memory between backward and the step of the fused optimizer",
              "call optimizer.zero_grad() between torch::load (or what else replaced weights) and the next forward, so "
              "that no step is made with gradients of the old weights; or load before backward"};
    case FusedFault::WeightConverted:
      return {name + " was moved to other memory after fuse, and is of another dtype, shape or device there",
              "convert the module before fuse, or call unfuse first; to load weights, load a file of the same dtype"};
    case FusedFault::CopyStale:
      return {name +
                  " was written between two steps in a way that is not noticed at once, as data() writes, and forward "
                  "has read its bf16 copy without that write",
              "write weights under torch::NoGradGuard and without data(), on every rank; or call own_weights() of what "
              "fuse has returned before you write; or leave out FuseOptions::compute_dtype"};
    case FusedFault::NoSliceSum:
      return {"the gradient of " + name +
                  " is not what run_shards left: it was written or zeroed since, or run_shards was not called. It is a "
                  "part of a sum over virtual shards, which only the step of a fused optimizer completes",
              "call run_shards before each step, and write no gradients in between; clip with "
              "lockstep::clip_grad_norm_ or StepOptions::max_norm, or leave out fuse"};
    case FusedFault::None:
      break;
  }
  return {"another rank found " + name + " changed", "read the logs of the other ranks"};
}

}  // namespace

FusedFaults::FusedFaults(const GradientBuckets& gradients, const std::vector<FusedBucket>& buckets,
                         const FusedWatch& watch, Communicator& communicator)
    : gradients_(gradients),
      buckets_(buckets),
      watch_(watch),
      communicator_(communicator),
      faults_(gradients.num_parameters(), 0) {}

bool FusedFaults::find() {
  has_found_ = false;
  for (const FusedBucket& bucket : buckets_) {
    for (const std::size_t index : bucket.parameters) {
      const at::Tensor& parameter = gradients_.parameter(index);
      FusedFault fault = watch_.fault(index);
      const bool is_converted = parameter.scalar_type() != bucket.weights.scalar_type() ||
                                parameter.device() != bucket.weights.device() ||
                                parameter.sizes() != gradients_.place(index).sizes();
      if (is_converted) fault = FusedFault::WeightConverted;
      faults_[index] = static_cast<std::uint8_t>(fault);
      has_found_ = has_found_ || fault != FusedFault::None;
    }
  }
  return has_found_;
}

bool FusedFaults::any() const {
  return std::any_of(faults_.begin(), faults_.end(), [](std::uint8_t fault) { return fault != 0; });
}

// Names the first parameter in `faults_`.
template <typename ErrorType>
ErrorType FusedFaults::error() const {
  const auto found = std::find_if(faults_.begin(), faults_.end(), [](std::uint8_t fault) { return fault != 0; });
  const auto index = static_cast<std::size_t>(found - faults_.begin());
  const FaultText text = text_of(static_cast<FusedFault>(*found), gradients_.name(index));
  return ErrorType(text.happened, communicator_.membership().where() + ", fused optimizer", text.fix);
}

void FusedFaults::throw_agreed() {
  reduce_marks(communicator_, faults_);
  throw error<AgreedError>();
}

void FusedFaults::throw_own() {
  if (find()) throw error<Error>();
}

}  // namespace lockstep
