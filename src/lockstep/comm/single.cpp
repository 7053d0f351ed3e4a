#include "lockstep/comm/single.h"

#include <utility>

#include "lockstep/comm/communicator/work_queue.h"

namespace lockstep {
namespace {

class SingleCommunicator : public Communicator {
 public:
  SingleCommunicator(Membership membership, c10::Device device)
      : Communicator(std::move(membership)), device_(device) {}
  ~SingleCommunicator() override { stop_queues(); }
  const char* engine() const override { return "single"; }
  c10::Device device() const override { return device_; }

 private:
  void do_all_reduce(at::Tensor&, const Operation&) override {}
  void do_broadcast(at::Tensor&, const Operation&) override {}
  void do_reduce(at::Tensor&, const Operation&) override {}
  void do_all_gather(at::Tensor& out, const at::Tensor& in, const Operation&) override { copy(out, in); }
  void do_reduce_scatter(at::Tensor& out, const at::Tensor& in, const Operation&) override { copy(out, in); }
  void do_gather(at::Tensor& out, const at::Tensor& in, const Operation&) override { copy(out, in); }
  void do_scatter(at::Tensor& out, const at::Tensor& in, const Operation&) override { copy(out, in); }
  void do_all_to_all(at::Tensor& out, const at::Tensor& in, const Operation&) override { copy(out, in); }
  // The public calls refuse this rank as the other side, and there is no other rank.
  void do_send(const at::Tensor&, const Operation&) override {}
  void do_recv(at::Tensor&, const Operation&) override {}
  void do_barrier(const Operation&) override {}
  void do_abort() override {}
  std::shared_ptr<Work> do_start_all_reduce(at::Tensor&, const Operation&) override { return completed_work(); }
  // On a device the copy is queued on the caller's stream at once, and only the tensors are kept for later.
  std::function<void()> do_begin(const Request& request, const Operation& operation) override {
    if (device_.is_cpu()) return nullptr;
    Request kept = request;
    dispatch(kept, operation);
    return [kept] {};
  }

  // Shapes may differ, the number of elements may not.
  static void copy(at::Tensor& out, const at::Tensor& in) { out.detach().view(-1).copy_(in.detach().view(-1)); }

  const c10::Device device_;
};

}  // namespace

std::unique_ptr<Communicator> make_single_communicator(Membership membership, c10::Device device) {
  return std::make_unique<SingleCommunicator>(std::move(membership), device);
}

}  // namespace lockstep
