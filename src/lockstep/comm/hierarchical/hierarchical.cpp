#include "lockstep/comm/hierarchical/hierarchical.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/home_process.h"
#include "lockstep/comm/communicator/enclosing_operation.h"
#include "lockstep/comm/hierarchical/host_parts.h"
#include "lockstep/comm/hierarchical/host_stages.h"
#include "lockstep/comm/host_memory.h"
#include "lockstep/comm/mesh/supervisor.h"

namespace lockstep {
namespace {

/// The whole group's supervisor reports failures in terms of the whole group: a part knows only its own ranks and
/// operations.
class HierarchicalCommunicator : public Communicator, public HostMemoryEngine {
 public:
  explicit HierarchicalCommunicator(Membership membership)
      : Communicator(std::move(membership)),
        parts_(std::make_shared<HostParts>(this->membership())),
        stages_(*parts_, world_size()),
        supervisor_(std::make_unique<Supervisor>(this->membership(), parts_)) {}

  ~HierarchicalCommunicator() override {
    if (is_forked_copy()) {
      never_destroy(std::move(parts_));
      never_destroy(std::move(supervisor_));
      return;
    }
    stop_queues();
    supervisor_.reset();
  }

  const char* engine() const override { return "hierarchical"; }

  at::Tensor allocate(at::IntArrayRef sizes, at::ScalarType dtype) override {
    try {
      return parts_->local->allocate(sizes, dtype);
    } catch (const Error& error) {  // a part records nothing
      if (cause_of(error) != nullptr && !membership().is_part()) record_failure(error);
      throw;
    }
  }

  bool has_equal_hosts() const override { return parts_->layout.equal; }

  HostMemory allocate_for_host(std::int64_t numel, at::ScalarType dtype) override {
    HostMemory shared;
    on_all_hosts([&] { shared = allocate_here(numel, dtype); });
    parts_->one_copy.add(shared.memory, shared.parts);
    return shared;
  }

  TransientMemory allocate_transient_for_host(std::int64_t numel, at::ScalarType dtype, GatherLayout layout) override {
    TransientMemory shared;
    on_all_hosts([&] {
      auto* const engine = dynamic_cast<TransientMemoryEngine*>(parts_->local.get());
      if (engine == nullptr) {
        throw Error(
            fmt::format("engine {} does not share memory between the ranks of this host", parts_->local->engine()),
            membership().where(), "start one process for each rank");
      }
      shared = engine->allocate_transient(numel, dtype);
    });
    parts_->transient.add(shared.memory, shared.parts, std::move(layout));
    return shared;
  }

  std::shared_ptr<SymmetricMemory> read_in_place(const at::Tensor& memory) override {
    auto copies = parts_->local->symmetric_memory(memory);
    if (copies) parts_->readable.add(memory, copies);
    return copies;
  }

 private:
  /// Runs `allocate`, which the ranks of each host call together. @throws Error  on every rank, if it throws on one
  /// host
  template <typename Allocate>
  void on_all_hosts(const Allocate& allocate) {
    std::exception_ptr failure;
    try {
      allocate();
    } catch (const std::exception&) {  // the other hosts wait for this one's answer
      failure = std::current_exception();
    }
    // The ranks of a host agree about memory, but other hosts may have enough.
    const at::Tensor is_short = at::full({1}, failure ? 1 : 0, at::TensorOptions().dtype(at::kByte));
    all_reduce(is_short, ReduceOp::Max);
    if (failure) std::rethrow_exception(failure);
    if (*is_short.data_ptr<std::uint8_t>() != 0) {
      throw Error("memory is short on another host", membership().where(), "read the logs of that host's ranks");
    }
  }

  /// Each rank of the host has a part of the memory, on its node of the machine.
  HostMemory allocate_here(std::int64_t numel, at::ScalarType dtype) {
    const auto ranks = static_cast<std::int64_t>(parts_->layout.here().size());
    const at::Tensor part = allocate({numel / ranks}, dtype);
    auto parts = parts_->local->symmetric_memory(part);
    at::Tensor memory = at::from_blob(
        parts->copy(0), {numel}, [part, parts](void*) {}, part.options());
    return {std::move(memory), std::move(parts)};
  }

  // Some of the ranks may be on one host, or on one host each.
  std::string engine_of_parts() const override { return ""; }

  template <typename Body>
  void perform(const Activity& activity, Deadline deadline, const Body& body) {
    const Watched watched(*supervisor_, activity, deadline);
    try {
      body();
    } catch (const Error& error) {
      supervisor_->raise(MeshError(MeshError::Kind::Part, error.happened()));
    }
  }

  template <typename Body>
  void collective(const Operation& operation, const Body& body) {
    perform(activity_of(operation), operation.deadline, [&] {
      const EnclosingOperation whole(operation.fingerprint);
      // Ranks meet even if there is nothing to send, so that a rank that has something to send is detected.
      if (operation.fingerprint.count == 0) return stages_.barrier();
      body();
    });
  }

  void do_all_reduce(at::Tensor& tensor, const Operation& operation) override {
    collective(operation, [&] { stages_.all_reduce(tensor, operation.fingerprint.op); });
  }
  void do_broadcast(at::Tensor& tensor, const Operation& operation) override {
    collective(operation, [&] { stages_.broadcast(tensor, operation.fingerprint.root); });
  }
  void do_reduce(at::Tensor& tensor, const Operation& operation) override {
    collective(operation, [&] { stages_.reduce(tensor, operation.fingerprint.root, operation.fingerprint.op); });
  }
  void do_all_gather(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation, [&] { stages_.all_gather(out, in); });
  }
  void do_reduce_scatter(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation, [&] { stages_.reduce_scatter(out, in, operation.fingerprint.op); });
  }
  void do_gather(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation, [&] { parts_->flat->gather(out, in, operation.fingerprint.root); });
  }
  void do_scatter(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation, [&] { parts_->flat->scatter(out, in, operation.fingerprint.root); });
  }
  void do_all_to_all(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation, [&] { parts_->flat->all_to_all(out, in); });
  }
  void do_barrier(const Operation& operation) override {
    collective(operation, [&] { stages_.barrier(); });
  }

  void do_send(const at::Tensor& tensor, const Operation& operation) override {
    perform(numbers_.activity_of(operation), operation.deadline, [&] {
      const auto [group, peer] = way_to(operation.fingerprint.root);
      group->send(tensor, peer, operation.tag);
    });
  }
  void do_recv(at::Tensor& tensor, const Operation& operation) override {
    perform(numbers_.activity_of(operation), operation.deadline, [&] {
      const auto [group, peer] = way_to(operation.fingerprint.root);
      group->recv(tensor, peer, operation.tag);
    });
  }

  void do_abort() override { supervisor_->abort(why_ended()); }

  /// The group that carries a message to this rank, and the rank's number in that group.
  std::pair<Communicator*, int> way_to(int rank) const {
    const HostLayout& layout = parts_->layout;
    if (layout.host_of(rank) == layout.host) return {parts_->local.get(), layout.place_of(rank)};
    return {parts_->flat.get(), rank};
  }

  std::shared_ptr<HostParts> parts_;
  HostStages stages_;
  std::unique_ptr<Supervisor> supervisor_;
  MessageNumbers numbers_;
};

}  // namespace

std::unique_ptr<Communicator> make_hierarchical_communicator(Membership membership) {
  return std::make_unique<HierarchicalCommunicator>(std::move(membership));
}

}  // namespace lockstep
