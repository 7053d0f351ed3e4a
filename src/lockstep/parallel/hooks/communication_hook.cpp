#include "lockstep/parallel/communication_hook.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest_name.h"
#include "lockstep/parallel/power_sgd_hook.h"

namespace lockstep {
namespace {

class AllReduceHook : public CommunicationHook {
 public:
  std::shared_ptr<Work> start(GradBucket& bucket, Communicator& communicator) override {
    return communicator.all_reduce_async(bucket.buffer, ReduceOp::Avg);
  }
};

class CompressHook : public CommunicationHook {
 public:
  explicit CompressHook(at::ScalarType dtype) : dtype_(dtype) {}

  std::shared_ptr<Work> start(GradBucket& bucket, Communicator& communicator) override {
    // Divided before the cast: a sum over many ranks would exceed fp16's range.
    at::Tensor compressed = bucket.buffer.div(communicator.world_size()).to(dtype_);
    compressed_[bucket.index] = compressed;
    return communicator.all_reduce_async(std::move(compressed), ReduceOp::Sum);
  }
  void finish(GradBucket& bucket, Communicator&) override {
    bucket.buffer.copy_(compressed_.at(bucket.index));
    compressed_.erase(bucket.index);
  }

 private:
  at::ScalarType dtype_;
  std::map<std::size_t, at::Tensor> compressed_;
};

class NoopHook : public CommunicationHook {
 public:
  std::shared_ptr<Work> start(GradBucket&, Communicator&) override { return nullptr; }
  bool synchronizes() const override { return false; }
  bool allows_join() const override { return false; }
};

}  // namespace

std::shared_ptr<Work> CommunicationHook::start_second(GradBucket&, Communicator&) { return nullptr; }
void CommunicationHook::finish(GradBucket&, Communicator&) {}
void CommunicationHook::attach(Communicator&) {}
void CommunicationHook::load_state(const HookState& state) {
  if (!state.empty()) refuse_hook_state("this hook", "it keeps no state, but was given " + state.front().first);
}

at::Tensor take_out(HookState& state, const std::string& name) {
  const auto found = std::find_if(state.begin(), state.end(), [&](const auto& entry) { return entry.first == name; });
  if (found == state.end()) return {};
  at::Tensor tensor = found->second;
  state.erase(found);
  return tensor;
}

void ResidualGuard::set_void(GradBucket& bucket) {
  is_void_ = true;
  const auto* begin = static_cast<const char*>(bucket.buffer.data_ptr());
  const auto element_bytes = static_cast<std::int64_t>(bucket.buffer.element_size());
  std::int64_t covered = 0;
  for (const at::Tensor& gradient : bucket.gradients) {
    const std::int64_t offset = (static_cast<const char*>(gradient.data_ptr()) - begin) / element_bytes;
    bucket.buffer.narrow(0, covered, offset - covered).zero_();
    covered = offset + gradient.numel();
  }
  bucket.buffer.narrow(0, covered, bucket.buffer.numel() - covered).zero_();
}

void refuse_hook_state(const char* hook, const std::string& what) {
  throw Error(what, std::string("state of the communication hook ") + hook,
              "register the hook, with the options and the number of ranks, that the state was saved with");
}

std::unique_ptr<CommunicationHook> allreduce_hook() { return std::make_unique<AllReduceHook>(); }
std::unique_ptr<CommunicationHook> fp16_compress_hook() { return std::make_unique<CompressHook>(at::kHalf); }
std::unique_ptr<CommunicationHook> bf16_compress_hook() { return std::make_unique<CompressHook>(at::kBFloat16); }
std::unique_ptr<CommunicationHook> noop_hook() { return std::make_unique<NoopHook>(); }

std::unique_ptr<CommunicationHook> make_communication_hook(const std::string& name) {
  if (name == "allreduce") return allreduce_hook();
  if (name == "fp16") return fp16_compress_hook();
  if (name == "bf16") return bf16_compress_hook();
  if (name == "int8") return int8_compress_hook();
  if (name == "powersgd") return power_sgd_hook();
  if (name == "noop") return noop_hook();
  const std::string suggestion = did_you_mean(name, {"allreduce", "fp16", "bf16", "int8", "powersgd", "noop"});
  throw Error("there is no communication hook \"" + name + "\"" + suggestion, "communication hook",
              "choose one of: allreduce, fp16, bf16, int8, powersgd, noop");
}

}  // namespace lockstep
