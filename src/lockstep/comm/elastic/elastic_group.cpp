#include "lockstep/comm/elastic/elastic_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/default_group.h"
#include "lockstep/comm/factory.h"
#include "lockstep/comm/host_threads.h"
#include "lockstep/net/store/prefix_store.h"
#include "lockstep/net/worlds/enter_job.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr const char* kVariable = "LOCKSTEP_SURVIVAL_FILE";
// A rank's loss is on the store's list within milliseconds. If the list stays empty for this long, none is lost.
constexpr milliseconds kUntilTheStoreKnows{5000};
constexpr milliseconds kBetweenLooks{50};
// All members are there when they connect, so they need milliseconds, or one of them is lost.
constexpr milliseconds kToConnect{10000};

// A killed process needs milliseconds to end, or longer on busy cores.
constexpr milliseconds kToEnd{10000};

// Also waits until it has ended, because until then it holds its locks, such as that of the output folder.
void end_process(int pid) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  ::kill(pid, SIGKILL);
  if (!process) return;
  pollfd ended{process.get(), POLLIN, 0};
  int count = -1;
  do {
    count = ::poll(&ended, 1, static_cast<int>(kToEnd.count()));
  } while (count < 0 && errno == EINTR);
  if (count == 0) {
    log_warning("process {} does not end, not even by SIGKILL: it hangs in the kernel", pid);
  }
}

std::string survival_file() {
  const auto file = env_string(kVariable);
  if (file && env_string("LOCKSTEP_STORE")) return *file;
  throw UsageError(
      fmt::format("surviving lost ranks needs a launcher that lets ranks survive ({} is not set)", kVariable),
      "this process", "start the ranks with lockstep run");
}

// The store keeps what ranks have agreed on, and who has left.
void claim_process() {
  static std::atomic<bool> is_claimed{false};
  if (!is_claimed.exchange(true)) return;
  throw UsageError("a second elastic_loop, or Trainer with survive_lost_ranks, in one process", "this process",
                   "do all steps in one of them, or start a job for each");
}

bool may_be_lost_rank(const std::exception& error) {
  const FailureCause* const cause = cause_of(error);
  if (cause == nullptr) return false;
  return cause->is_consequence() || (cause->kind == FailureCause::Kind::Timeout && cause->rank >= 0);
}

}  // namespace

void require_lost_rank(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    if (!may_be_lost_rank(error)) throw;
  }
}

ElasticGroup::ElasticGroup(std::shared_ptr<Communicator> group, std::string engine)
    : engine_(std::move(engine)),
      timeout_(group->membership().timeout),
      store_(group->membership().store),
      self_(group->membership().self()),
      agreement_(std::make_unique<WorldAgreement>(std::make_shared<PrefixStore>(store_, "worlds"), self_)),
      world_{0, group->membership().peers},
      group_(std::move(group)) {
  survival_file();
  claim_process();
}

ElasticGroup::ElasticGroup(std::string engine, milliseconds timeout) : engine_(std::move(engine)), timeout_(timeout) {
  survival_file();
  claim_process();
  JobEntrance entrance = enter_job(Deadline::after(kToConnect));
  store_ = std::move(entrance.store);
  self_ = std::move(entrance.self);
  agreement_ = std::make_unique<WorldAgreement>(std::make_shared<PrefixStore>(store_, "worlds"), self_);
}

void ElasticGroup::announce() const {
  const std::string path = survival_file();
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!file) {
    throw Error("cannot write " + path + ": " + errno_text(errno), "rank " + std::to_string(self_.global_rank),
                "see that the launcher's folder is writable and has room");
  }
}

Membership ElasticGroup::membership() const {
  Membership membership;
  membership.rank = world_.rank_of(self_.global_rank);
  membership.world_size = static_cast<int>(world_.members.size());
  membership.group = fmt::format("world-{}", world_.number);
  membership.peers = world_.members;
  membership.store = std::make_shared<PrefixStore>(store_, membership.group);
  membership.timeout = timeout_;
  membership.join_timeout = std::min(timeout_, kToConnect);
  return membership;
}

// @return  false if the members have changed, or one of them is lost
bool ElasticGroup::connect() {
  if (!agreement_->meet(world_, Deadline::after(timeout_))) return false;
  try {
    group_ = make_communicator(world_.members.size() == 1 ? "" : engine_, membership());
  } catch (const std::exception& error) {
    if (!may_be_lost_rank(error) && dynamic_cast<const TimeoutError*>(&error) == nullptr) throw;
    log_info("the next group was not formed: {}", error.what());
    return false;
  }
  return true;
}

void ElasticGroup::form(RankWorld next) {
  group_.reset();
  for (world_ = std::move(next); !connect();) {
    // If nobody is lost, a connection failed: another attempt with the same members.
    try {
      world_ = agreement_->next(world_, false, false, Deadline::after(milliseconds(500)));
    } catch (const TimeoutError&) {
      world_ = agreement_->next(world_, true, false, Deadline::after(kUntilTheStoreKnows));
    }
  }
  share_host_threads(group_->membership());
  record_failures_as(self_.global_rank);  // drops the record of what this rank has survived
  replace_default_group(group_, nullptr);
}

void ElasticGroup::join() {
  form(agreement_->wait_for_admission(Deadline::never()));
  replace_default_group(group_, store_);
  announce();
}

// A rank that stands still may wake up at any time. On this host it is ended, so that the launcher can replace it; on
// another one it finds that the others have continued without it.
void ElasticGroup::give_up(int global_rank) {
  agreement_->give_up(global_rank);
  const int rank = world_.rank_of(global_rank);
  if (rank < 0 || global_rank == self_.global_rank) return;
  const Peer& peer = world_.members[static_cast<std::size_t>(rank)];
  if (peer.host_id == self_.host_id && peer.pid > 1 && peer.pid != self_.pid) end_process(peer.pid);
}

void ElasticGroup::recover(const std::exception_ptr& failure) {
  Deadline until = Deadline::after(kUntilTheStoreKnows);
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    if (!may_be_lost_rank(error)) throw;
    const FailureCause cause = *cause_of(error);
    if (cause.kind == FailureCause::Kind::Timeout) give_up(cause.rank);
    // A rank that failed by itself may live for a while. One that failed because of a lost rank knew of it by the
    // store.
    if (cause.kind == FailureCause::Kind::AbortedByPeer) until = Deadline::after(milliseconds(0));
  }
  std::optional<RankWorld> next;
  try {
    next = agreement_->next(world_, false, false, until);
  } catch (const TimeoutError&) {
    std::rethrow_exception(failure);
  }
  form(std::move(*next));
}

bool ElasticGroup::someone_waits() {
  const auto now = std::chrono::steady_clock::now();
  if (group_->rank() != 0 || now - looked_at_ < kBetweenLooks) return false;
  looked_at_ = now;
  return agreement_->someone_waits(world_);
}

void ElasticGroup::admit() { form(agreement_->next(world_, true, true, Deadline::after(kUntilTheStoreKnows))); }

}  // namespace lockstep
