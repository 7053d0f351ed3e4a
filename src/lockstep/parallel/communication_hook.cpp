#include "lockstep/parallel/communication_hook.h"

#include <map>
#include <utility>

#include "lockstep/base/error.h"
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
    // Divided before the cast: a sum over many ranks would leave fp16's range.
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
  throw Error("there is no communication hook \"" + name + "\"", "communication hook",
              "choose one of: allreduce, fp16, bf16, int8, powersgd, noop");
}

}  // namespace lockstep
