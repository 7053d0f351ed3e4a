#include "lockstep/comm/process_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/environment_check.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/group_place.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/heap.h"
#include "lockstep/base/trace/trace_window.h"
#include "lockstep/comm/default_group.h"
#include "lockstep/comm/factory.h"
#include "lockstep/comm/host_threads.h"
#include "lockstep/comm/local_device.h"
#include "lockstep/comm/trace.h"
#include "lockstep/comm/trace_names.h"
#include "lockstep/net/launcher_environment.h"
#include "lockstep/net/rendezvous.h"
#include "lockstep/net/worlds/enter_job.h"
#include "lockstep/start/kernel_choice.h"
#include "lockstep/trace/job_trace.h"

namespace lockstep {
namespace {

constexpr std::chrono::minutes kDefaultTimeout{30};
constexpr std::chrono::minutes kDefaultTimeoutOfDevices{10};
constexpr std::chrono::minutes kDefaultJoinTimeout{10};
constexpr std::chrono::seconds kLeavingTimeout{5};

// The default group of this process.
struct Default {
  std::mutex mutex;
  std::shared_ptr<Communicator> group;
  std::shared_ptr<Store> store;
  std::unique_ptr<JobTrace> trace;  // that LOCKSTEP_TRACE asks for
};

Default& the_default() {
  static Default instance;
  return instance;
}

using Limit = std::optional<std::chrono::milliseconds>;

Limit seconds_in(const char* variable) {
  const auto seconds = env_int(variable);
  return seconds ? Limit(std::chrono::seconds(*seconds)) : std::nullopt;
}

bool is_of_device(const std::string& backend) {
  for (const Engine& engine : available_engines()) {
    if (engine.name == backend) return engine.device != c10::DeviceType::CPU;
  }
  return false;
}

// Makes a device current for device engines, which connect on the current device.
void choose_device_for(const std::string& backend) {
  if (is_of_device(backend)) use_local_device_by_default();
}

}  // namespace

std::chrono::milliseconds default_timeout(const std::string& backend) {
  return is_of_device(backend) ? kDefaultTimeoutOfDevices : kDefaultTimeout;
}

namespace {

// Joins the job, and makes `current` its group.
void join_job(const ProcessGroupOptions& options, Default& current) {
  if (is_replacement() && options.init_method == "env://") {
    throw UsageError("init_process_group in a process that takes a lost rank's place, which the other ranks let in",
                     "this process", "leave it out: on_rank_change, and Trainer with survive_lost_ranks join the job");
  }
  require_readable_environment();
  adopt_launcher_environment();
  keep_freed_memory();
  check_kernels();
  RendezvousOptions meeting;
  meeting.init_method = options.init_method;
  meeting.world_size = options.world_size;
  meeting.rank = options.rank;
  const Limit given = options.timeout ? options.timeout : seconds_in("LOCKSTEP_TIMEOUT_S");
  const Limit to_join = options.join_timeout ? options.join_timeout : seconds_in("LOCKSTEP_JOIN_TIMEOUT_S");
  meeting.timeout = given.value_or(default_timeout(options.backend));
  meeting.join_timeout = to_join ? to_join : given.value_or(kDefaultJoinTimeout);
  meeting.on_awaiting = [](const std::string& line) { log_info("{}", line); };
  if (options.init_method == "env://") prepare_rendezvous(Deadline::after(*meeting.join_timeout));
  const Membership membership = rendezvous(meeting);
  set_log_rank(membership.rank);
  share_host_threads(membership);
  choose_device_for(options.backend);
  current.group = make_communicator(options.backend, membership);
  current.store = membership.store;
  set_default_place(GroupPlace{membership.rank, membership.world_size});
  if (membership.rank == 0) {
    log_info("process group of {} ranks over engine {}", membership.world_size, current.group->engine());
  }
}

void begin_wanted_trace(Default& current) {
  const auto file = env_string("LOCKSTEP_TRACE");
  if (!file) return;
  const TraceWindow window = trace_window(env_string("LOCKSTEP_TRACE_STEPS").value_or(kDefaultTraceSteps));
  current.trace = std::make_unique<JobTrace>(*file, window, current.group->membership(), names_in_traces());
}

// The program's own work is done, so a trace that cannot be written is no reason to fail.
void finish_trace(Default& current) {
  const std::unique_ptr<JobTrace> trace = std::exchange(current.trace, nullptr);
  if (!trace) return;
  try {
    trace->finish();
  } catch (const std::exception& error) {
    log_warning("trace: {}", error.what());
  }
}

}  // namespace

void init_process_group(const ProcessGroupOptions& options) {
  Default& current = the_default();
  std::unique_lock<std::mutex> lock(current.mutex);
  if (current.group) {
    throw Error("init_process_group was called twice", current.group->membership().where(),
                "call destroy_process_group first, or use new_group for a part of the ranks");
  }
  record_failures_as(-1);
  try {
    join_job(options, current);
    lock.unlock();
    begin_wanted_trace(current);
  } catch (const std::exception& error) {
    record_failure(error);  // a program may catch it
    throw;
  }
}

void init_process_group(const std::string& backend, const std::string& init_method, std::optional<int> world_size,
                        std::optional<int> rank, std::optional<std::chrono::milliseconds> timeout) {
  ProcessGroupOptions options;
  options.backend = backend;
  options.init_method = init_method;
  options.world_size = world_size;
  options.rank = rank;
  options.timeout = timeout;
  init_process_group(options);
}

void replace_default_group(std::shared_ptr<Communicator> group, std::shared_ptr<Store> store) {
  Default& current = the_default();
  const std::lock_guard<std::mutex> lock(current.mutex);
  set_log_rank(group->rank());
  set_default_place(GroupPlace{group->rank(), group->world_size()});
  current.group = std::move(group);
  if (store) current.store = std::move(store);
}

bool is_initialized() {
  Default& current = the_default();
  const std::lock_guard<std::mutex> lock(current.mutex);
  return current.group != nullptr;
}

std::shared_ptr<Communicator> default_group() {
  Default& current = the_default();
  const std::lock_guard<std::mutex> lock(current.mutex);
  if (!current.group) {
    throw Error("there is no process group", "this process", "call init_process_group first");
  }
  return current.group;
}

int get_rank() { return default_group()->rank(); }
int get_world_size() { return default_group()->world_size(); }
int get_local_rank() { return default_group()->membership().self().local_rank; }

void barrier() { default_group()->barrier(); }

std::shared_ptr<Communicator> new_group(const std::vector<int>& ranks) {
  const auto group = default_group();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= group->world_size()) {
      throw Error(fmt::format("new_group: rank {} does not exist", ranks[i]), group->membership().where(),
                  fmt::format("name ranks in [0, {})", group->world_size()));
    }
    if (std::count(ranks.begin(), ranks.end(), ranks[i]) > 1) {
      throw Error(fmt::format("new_group: rank {} occurs twice", ranks[i]), group->membership().where(),
                  "name each rank once");
    }
  }
  const auto found = std::find(ranks.begin(), ranks.end(), group->rank());
  if (found == ranks.end()) return group->split(-1);
  return group->split(0, static_cast<int>(found - ranks.begin()));
}

void destroy_process_group() {
  Default& current = the_default();
  finish_trace(current);
  const std::lock_guard<std::mutex> lock(current.mutex);
  current.group.reset();
  set_default_place(std::nullopt);
  if (const auto store = std::exchange(current.store, nullptr)) store->finish(Deadline::after(kLeavingTimeout));
}

}  // namespace lockstep
