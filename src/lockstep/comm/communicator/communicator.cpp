#include "lockstep/comm/communicator.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/home_process.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/communicator/communicator_state.h"
#include "lockstep/comm/communicator/work_queue.h"
#include "lockstep/comm/failure/group_failure.h"
#include "lockstep/net/store/patience.h"

namespace lockstep {

Communicator::Communicator(Membership membership)
    : membership_(std::move(membership)), state_(std::make_unique<State>()) {
  if (membership_.patience || membership_.world_size == 1 || !membership_.store) return;
  membership_.patience = std::make_shared<Patience>(membership_.store, membership_.rank, membership_.timeout);
}

Communicator::~Communicator() {
  if (is_forked_copy()) never_destroy(std::move(state_));
}

bool Communicator::is_forked_copy() const { return !state_->home.is_here(); }

void Communicator::stop_queues() {
  if (is_forked_copy()) return;
  bool busy = !state_->collectives->idle();
  for (auto& [key, queue] : state_->messages) busy = busy || !queue->idle();
  if (busy && !state_->dead) {
    try {
      state_->is_closing = true;
      abort(kDestroyedEarly);
    } catch (const std::exception& error) {
      log_warning("{}", error.what());
    }
  }
  state_->collectives.reset();
  state_->messages.clear();
}

at::Tensor Communicator::allocate(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::empty(sizes, at::TensorOptions().dtype(dtype).device(device()));
}

std::shared_ptr<SymmetricMemory> Communicator::symmetric_memory(const at::Tensor&) { return nullptr; }

std::shared_ptr<Work> Communicator::do_start_all_reduce(at::Tensor&, const Operation&) { return nullptr; }

void Communicator::do_progress() {}

std::function<void()> Communicator::do_begin(const Request&, const Operation&) { return nullptr; }

std::string Communicator::where(const Fingerprint* fingerprint) const {
  std::string text = fmt::format("{}, engine {}", membership_.where(), engine());
  if (membership_.group != "default") text += ", group " + membership_.group;
  if (fingerprint != nullptr) text += ", " + fingerprint->describe();
  return text;
}

void Communicator::throw_if_dead() {
  if (!state_->dead) return;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  note_throw();
  std::rethrow_exception(state_->failure);
}

// A companion carries tensors of the communicator that the program has.
void Communicator::note_throw() {
  state_->has_thrown = true;
  if (state_->origin != nullptr) state_->origin->state_->has_thrown = true;
}

bool Communicator::has_thrown() const { return state_->has_thrown; }

void Communicator::fail(std::exception_ptr failure) {
  bool is_first = false;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    is_first = !state_->failure;
    if (is_first) state_->failure = failure;  // the first failure is the cause, later ones follow from it
    failure = state_->failure;
    state_->dead = true;
  }
  note_throw();
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    // The failure of a part that an engine made for itself is reported by the whole group.
    if (is_first && !membership_.is_part()) record_failure(error);
    throw;
  }
}

std::string Communicator::why_ended() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (!state_->abort_reason.empty()) return state_->abort_reason;
  if (!state_->failure) return "";
  try {
    std::rethrow_exception(state_->failure);
  } catch (const Error& error) {
    return error.happened();
  } catch (const std::exception& error) {
    return error.what();
  }
}

void Communicator::fail_in(const Fingerprint& fingerprint) {
  try {
    throw;
  } catch (const Error& error) {
    fail(moved_to(error, where(&fingerprint)));
  } catch (const std::exception& error) {
    fail(std::make_exception_ptr(Error(fmt::format("{} failed: {}", to_string(fingerprint.kind), error.what()),
                                       where(&fingerprint), "read the other ranks' messages too")));
  }
}

void Communicator::abort(const std::string& reason) {
  bool is_told = false;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    is_told = state_->failure != nullptr || state_->is_closing;
  }
  if (!is_told && !membership_.is_part()) {
    record_failure(std::runtime_error(reason));  // before other ranks notice it
  }
  Communicator* companion = nullptr;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    companion = state_->companion.get();
    if (!state_->failure) {
      const GroupFailure failure = GroupFailure::aborted(named_rank(membership_, membership_.rank), reason);
      state_->failure =
          std::make_exception_ptr(Caused<Error>(Error(failure.happened, where(nullptr), failure.fix), failure.cause()));
      state_->abort_reason = reason;
    }
    state_->dead = true;
  }
  do_abort();
  if (companion != nullptr) companion->abort(reason);
}

}  // namespace lockstep
