// The engines over a mesh of connections: Communicator's operations by MeshCollectives, watched by a Supervisor.
#include "lockstep/comm/mesh/mesh_communicator.h"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/base/home_process.h"
#include "lockstep/comm/mesh/bring_up/bring_up.h"
#include "lockstep/comm/mesh/collectives.h"
#include "lockstep/comm/mesh/posted_collective.h"
#include "lockstep/comm/mesh/signal_guard.h"
#include "lockstep/comm/mesh/supervisor.h"
#include "lockstep/comm/reduce/elements.h"

namespace lockstep {
namespace {

// The supervisor enforces deadlines, because it can name the late ranks. The mesh has its own guard for the case that a
// store without an answer delays the supervisor itself.
Deadline with_grace(Deadline deadline) { return deadline.later_by(std::chrono::seconds(2)); }

Reduction reduction_of(const Operation& operation) {
  const shm::Element element = element_of(operation.fingerprint.dtype);
  const shm::Reduction reduction = reduction_of(operation.fingerprint.op);
  return {shm::element_bytes(element), [=](std::byte* out, const std::vector<const std::byte*>& in, std::size_t count) {
            shm::reduce(element, reduction, in.data(), static_cast<int>(in.size()), &out, 1, count);
          }};
}

// Most collectives that may be posted and not ended: enough to keep a link busy while a thread waits for a core. More
// would only use memory earlier than needed.
constexpr int kMostPosted = 2;

class MeshCommunicator : public Communicator {
 public:
  MeshCommunicator(Membership membership, const char* engine, const MakeMesh& make)
      : Communicator(std::move(membership)), engine_(engine) {
    const auto on_failure = [this](const MeshError& error) {
      if (supervisor_) supervisor_->report(error);
    };
    mesh_ = make(this->membership(), this->membership().join_deadline(), on_failure);
    // A new deadline: the ranks do not control how long a library takes to start.
    const Deadline deadline = this->membership().join_deadline();
    collectives_ = std::make_unique<MeshCollectives>(*mesh_, rank(), world_size());
    const std::vector<std::string> addresses = exchange_addresses(this->membership(), *mesh_, deadline);
    supervisor_ = std::make_unique<Supervisor>(this->membership(), mesh_);
    connect(addresses, deadline);
    wait_until_all_connected(this->membership(), deadline);
  }

  ~MeshCommunicator() override {
    if (is_forked_copy()) {
      never_destroy(std::move(collectives_));
      never_destroy(std::move(mesh_));
      never_destroy(std::move(supervisor_));
      return;
    }
    stop_queues();
    supervisor_.reset();
    mesh_->break_connections();
  }

  const char* engine() const override { return engine_; }

 private:
  void connect(const std::vector<std::string>& addresses, Deadline deadline) {
    Activity activity;
    activity.is_group_start = true;
    perform(activity, deadline, [&] {
      for (int peer = 0; peer < world_size(); ++peer) {
        if (peer != rank()) mesh_->connect(peer, addresses[static_cast<std::size_t>(peer)]);
      }
    });
  }

  // One operation, guarded by the mesh's deadline.
  class Guarded {
   public:
    Guarded(Mesh& mesh, Deadline deadline) : mesh_(mesh), guard_(mesh.guard(with_grace(deadline))) {}
    ~Guarded() { mesh_.release_guard(guard_); }
    Guarded(const Guarded&) = delete;
    Guarded& operator=(const Guarded&) = delete;

   private:
    Mesh& mesh_;
    const std::uint64_t guard_;
  };

  template <typename Body>
  void perform(const Activity& activity, Deadline deadline, const Body& body) {
    SignalGuard signals;
    const Watched watched(*supervisor_, activity, deadline);
    const Guarded guarded(*mesh_, deadline);
    try {
      body();
    } catch (const MeshError& error) {
      signals.failed();
      supervisor_->raise(error);
    }
  }

  // A collective posts what it can in its caller's thread, while earlier ones are still running. So the network has
  // work while this host's threads compute, and while they wait for a core to continue the earlier operation.
  std::function<void()> do_begin(const Request& request, const Operation& operation) override {
    if (!mesh_->sends_unattended() || operation.staged || operation.fingerprint.count == 0) return nullptr;
    if (posted_ >= kMostPosted) return nullptr;
    struct Posted {  // destroyed from the bottom: messages end before the memory goes that they may write
      Request tensors;
      std::unique_ptr<PostedCollective> collective;
    };
    const auto posted = std::make_shared<Posted>(Posted{request, nullptr});
    try {
      posted->collective = post(request, operation);
    } catch (const MeshError&) {
      return nullptr;  // it fails again in its turn, which explains the failure
    }
    if (!posted->collective) return nullptr;
    ++posted_;
    return [this, posted, activity = activity_of(operation)] {
      // The deadline starts only now: a long queue of operations is no reason to give up.
      perform(activity, membership().deadline(), [&] {
        posted->collective->finish();
        posted->collective.reset();
        --posted_;
      });
    };
  }

  // Posts the first messages of a collective, if that is worthwhile for it; otherwise returns null.
  std::unique_ptr<PostedCollective> post(const Request& request, const Operation& operation) {
    const std::uint64_t slot = slot_of(activity_of(operation), rank());
    switch (operation.fingerprint.kind) {
      case OperationKind::AllReduce:
        return collectives_->post_all_reduce(slot, request.out.data_ptr(), count_of(operation),
                                             reduction_of(operation));
      case OperationKind::AllGather:
        return collectives_->post_all_gather(slot, request.out.data_ptr(), request.in.data_ptr(), bytes_of(operation));
      case OperationKind::ReduceScatter:
        return collectives_->post_reduce_scatter(slot, request.out.data_ptr(), request.in.data_ptr(),
                                                 count_of(operation), reduction_of(operation));
      case OperationKind::AllToAll:
        return collectives_->post_all_to_all(slot, request.out.data_ptr(), request.in.data_ptr(), bytes_of(operation));
      default:
        return nullptr;
    }
  }

  // A whole collective, in its turn.
  template <typename Body>
  void collective(const Operation& operation, const Body& body) {
    const Activity activity = activity_of(operation);
    perform(activity, operation.deadline, [&] {
      collectives_->begin(slot_of(activity, rank()));
      // Ranks meet even if there is nothing to send, so that a rank that has something to send is detected.
      if (operation.fingerprint.count == 0) return collectives_->barrier();
      body(*collectives_);
    });
  }

  void do_all_reduce(at::Tensor& tensor, const Operation& operation) override {
    collective(operation, [&](MeshCollectives& mesh) {
      mesh.all_reduce(tensor.data_ptr(), count_of(operation), reduction_of(operation));
    });
  }
  void do_broadcast(at::Tensor& tensor, const Operation& operation) override {
    collective(operation, [&](MeshCollectives& mesh) {
      mesh.broadcast(tensor.data_ptr(), bytes_of(operation), operation.fingerprint.root);
    });
  }
  void do_reduce(at::Tensor& tensor, const Operation& operation) override {
    collective(operation, [&](MeshCollectives& mesh) {
      mesh.reduce(tensor.data_ptr(), count_of(operation), operation.fingerprint.root, reduction_of(operation));
    });
  }
  void do_all_gather(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation,
               [&](MeshCollectives& mesh) { mesh.all_gather(out.data_ptr(), in.data_ptr(), bytes_of(operation)); });
  }
  void do_reduce_scatter(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation, [&](MeshCollectives& mesh) {
      mesh.reduce_scatter(out.data_ptr(), in.data_ptr(), count_of(operation), reduction_of(operation));
    });
  }
  void do_gather(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation, [&](MeshCollectives& mesh) {
      mesh.gather(out.defined() ? out.data_ptr() : nullptr, in.data_ptr(), bytes_of(operation),
                  operation.fingerprint.root);
    });
  }
  void do_scatter(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation, [&](MeshCollectives& mesh) {
      mesh.scatter(out.data_ptr(), in.defined() ? in.data_ptr() : nullptr, bytes_of(operation),
                   operation.fingerprint.root);
    });
  }
  void do_all_to_all(at::Tensor& out, const at::Tensor& in, const Operation& operation) override {
    collective(operation,
               [&](MeshCollectives& mesh) { mesh.all_to_all(out.data_ptr(), in.data_ptr(), bytes_of(operation)); });
  }
  void do_barrier(const Operation& operation) override {
    collective(operation, [](MeshCollectives& mesh) { mesh.barrier(); });
  }

  void do_send(const at::Tensor& tensor, const Operation& operation) override {
    const Activity activity = numbers_.activity_of(operation);
    perform(activity, operation.deadline, [&] {
      const auto buffer = mesh_->buffer(tensor.data_ptr(), bytes_of(operation));
      buffer->send(operation.fingerprint.root, slot_of(activity, rank()), 0, bytes_of(operation));
      buffer->wait_sent();
    });
  }
  void do_recv(at::Tensor& tensor, const Operation& operation) override {
    const Activity activity = numbers_.activity_of(operation);
    perform(activity, operation.deadline, [&] {
      const auto buffer = mesh_->buffer(tensor.data_ptr(), bytes_of(operation));
      buffer->recv(operation.fingerprint.root, slot_of(activity, rank()), 0, bytes_of(operation));
      buffer->wait_received();
    });
  }

  void do_abort() override { supervisor_->abort(why_ended()); }

  static std::size_t count_of(const Operation& operation) {
    return static_cast<std::size_t>(operation.fingerprint.count);
  }
  static std::size_t bytes_of(const Operation& operation) {
    return count_of(operation) * c10::elementSize(operation.fingerprint.dtype);
  }

  const char* const engine_;
  std::shared_ptr<Mesh> mesh_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<MeshCollectives> collectives_;
  std::atomic<int> posted_{0};
  MessageNumbers numbers_;
};

}  // namespace

std::unique_ptr<Communicator> make_mesh_communicator(Membership membership, const char* engine, const MakeMesh& make) {
  return std::make_unique<MeshCommunicator>(std::move(membership), engine, make);
}

}  // namespace lockstep
