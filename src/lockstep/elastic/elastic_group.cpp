#include "lockstep/elastic/elastic_group.h"

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
#include "lockstep/base/failure_record.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/default_group.h"
#include "lockstep/comm/factory.h"
#include "lockstep/comm/host_threads.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/net/store/prefix_store.h"
#include "lockstep/net/worlds/enter_job.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr const char* kVariable = "LOCKSTEP_SURVIVAL_FILE";
// All members are there when they connect, so they need milliseconds, or one of them is lost.
constexpr milliseconds kToConnect{10000};

// A killed process needs milliseconds to end, or longer on busy cores.
constexpr milliseconds kToEnd{10000};

// The launchers need milliseconds for a host that has ended, and several times keep_alive for one that is silent. If
// the job ends, they end this process.
constexpr milliseconds kToFollow{600000};

milliseconds time_to_enter() { return env_string("LOCKSTEP_STORE_FILE") ? kToFollow : kToConnect; }

// By its descriptor, because its number may be another process's once it has ended; by its number in a sandbox that
// has no such call. Also waits until it has ended: until then it holds its locks, such as that of the output folder.
void kill_process(int pid) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process && errno == ESRCH) return;
  const bool is_sent = process && ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) == 0;
  if (!is_sent && errno != ESRCH) ::kill(pid, SIGKILL);
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
  throw UsageError("one process cannot have a second on_rank_change, or Trainer with survive_lost_ranks",
                   "this process", "do all steps in one of them, or start a job for each");
}

}  // namespace

milliseconds timeout_of_job(const std::string& engine) {
  const auto seconds = env_int("LOCKSTEP_TIMEOUT_S");
  return seconds ? milliseconds(std::chrono::seconds(*seconds)) : default_timeout(engine);
}

ElasticGroup::ElasticGroup(std::shared_ptr<Communicator> group, std::string engine)
    : engine_(std::move(engine)),
      timeout_(group->membership().timeout),
      store_(group->membership().store),
      group_(std::move(group)) {
  survival_file();
  claim_process();
  const Membership& membership = group_->membership();
  WorldLinks& links = *this;
  moving_ = moving_store_below(store_);
  const std::int64_t era = moving_ ? moving_->era() : 0;
  const RankWorld world{first_number_of(era), membership.peers};
  member_ = std::make_unique<WorldMember>(store_, membership.self(), world, WorldPatience{timeout_}, links, era);
  watch_store();
}

ElasticGroup::ElasticGroup(std::string engine, milliseconds timeout) : engine_(std::move(engine)), timeout_(timeout) {
  survival_file();
  claim_process();
  JobEntrance entrance = enter_job(Deadline::after(time_to_enter()));
  store_ = std::move(entrance.store);
  WorldLinks& links = *this;
  moving_ = moving_store_below(store_);
  const std::int64_t era = moving_ ? moving_->era() : 0;
  member_ =
      std::make_unique<WorldMember>(store_, std::move(entrance.self), RankWorld{}, WorldPatience{timeout_}, links, era);
  watch_store();
}

ElasticGroup::~ElasticGroup() {
  if (moving_) moving_->watch_no_more();
}

void ElasticGroup::set_group(std::shared_ptr<Communicator> group) {
  {
    const std::lock_guard lock(mutex_);
    std::swap(group_, group);
  }
}

// The present group ends for this rank, although its members may still hear of each other: those on the lost host are
// not told where the others meet.
void ElasticGroup::watch_store() {
  if (!moving_) return;
  moving_->watch([this] {
    std::shared_ptr<Communicator> group;
    {
      const std::lock_guard lock(mutex_);
      group = group_;
    }
    if (group) group->abort("the host that served the job's store is lost, and another one serves it now");
  });
}

std::optional<StoreMove> ElasticGroup::follow_store() {
  if (!moving_) return std::nullopt;
  log_info("the job's store is lost; waiting until the launcher says which host serves it now");
  return moving_->follow(Deadline::after(kToFollow));
}

void ElasticGroup::announce() const {
  const std::string path = survival_file();
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!file) {
    throw Error("cannot write " + path + ": " + errno_text(errno),
                "rank " + std::to_string(member_->self().global_rank),
                "check that the launcher's folder is writable and has free space");
  }
}

void ElasticGroup::connect(const RankWorld& world) {
  Membership membership;
  membership.rank = world.rank_of(member_->self().global_rank);
  membership.world_size = static_cast<int>(world.members.size());
  membership.group = fmt::format("world-{}", world.number);
  membership.peers = world.members;
  membership.store = std::make_shared<PrefixStore>(store_, membership.group);
  membership.timeout = timeout_;
  membership.join_timeout = std::min(timeout_, kToConnect);
  set_group(make_communicator(world.members.size() == 1 ? "" : engine_, membership));
}

void ElasticGroup::end_process(int pid) { kill_process(pid); }

// As the default group.
void ElasticGroup::use_group() const {
  share_host_threads(group_->membership());
  record_failures_as(member_->self().global_rank);  // drops the record of what this rank has survived
  replace_default_group(group_, nullptr);
}

void ElasticGroup::join() {
  member_->join();
  use_group();
  replace_default_group(group_, store_);
}

void ElasticGroup::recover(const std::exception_ptr& failure) {
  member_->recover(failure);
  use_group();
}

void ElasticGroup::admit() {
  member_->admit();
  use_group();
}

}  // namespace lockstep
