#include "lockstep/launch/job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/job_mark.h"
#include "lockstep/base/log.h"
#include "lockstep/base/signals.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/launch/attempt.h"
#include "lockstep/launch/job_summary.h"
#include "lockstep/launch/nodes/free_port.h"
#include "lockstep/launch/nodes/make_node_group.h"
#include "lockstep/launch/process/process_table.h"
#include "lockstep/launch/process/signal_inbox.h"
#include "lockstep/launch/ranks/failure_report.h"
#include "lockstep/launch/written_trace.h"
#include "lockstep/net/secret.h"
#include "lockstep/net/worlds/job_memory.h"
#include "lockstep/start/kernel_choice.h"
#include "lockstep/start/start_variables.h"

namespace lockstep {
namespace {

// Descriptors 0 to 2 must be open, or files opened later would get these numbers and receive the ranks' output.
void fill_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    while (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) >= 0) {
    }
  }
}

// Unique on this host. A job inside a job has both marks, so that the outer one's guard finds its processes too.
std::string make_job_mark() {
  const char* outer = std::getenv(kJobMarkVariable);
  const std::string own = make_secret().substr(0, 16);
  return outer != nullptr && *outer != '\0' ? std::string(outer) + "/" + own : own;
}

std::vector<RankPlace> places_of(const LaunchPlan& plan, const NodeGroup& nodes, const Agreement& agreement,
                                 const std::string& mark, int memory) {
  std::vector<RankPlace> places;
  for (int local_rank = 0; local_rank < plan.local_ranks; ++local_rank) {
    RankPlace place;
    place.rank = agreement.first_rank + local_rank;
    if (agreement.first_member >= 0) place.member = place.rank;
    place.local_rank = local_rank;
    place.world_size = agreement.world_size;
    place.local_world_size = plan.local_ranks;
    place.node_rank = agreement.node_rank;
    place.nodes = agreement.nodes;
    place.role = plan.role;
    place.master_addr = agreement.master_addr.empty() ? plan.master_addr : agreement.master_addr;
    place.master_port = agreement.master_port;
    place.generation = agreement.generation;
    place.restart_count = agreement.restarts;
    place.max_restarts = plan.max_restarts;
    place.run_id = plan.run_id;
    place.store = nodes.store_address();
    place.store_file = nodes.store_file();
    place.secret = nodes.secret();
    place.collective_timeout_s = plan.collective_timeout_s;
    place.trace_file = plan.trace_file;
    place.trace_steps = plan.trace_steps;
    place.job_mark = mark;
    place.memory = memory;
    places.push_back(place);
  }
  return places;
}

// A person at a terminal reads it; logs have it at level info.
void show_summary(Console& err, const LaunchPlan& plan, const Agreement& agreement) {
  const bool is_for_person = ::isatty(STDERR_FILENO) == 1;
  if (!is_for_person && !log_enabled(LogLevel::Info)) return;
  const std::string threads = is_users_choice("OMP_NUM_THREADS") ? env_string("OMP_NUM_THREADS").value_or("") : "";
  const std::string text = summary_of(plan, agreement, node_cores(), threads);
  is_for_person ? err.write("lockstep run: " + text + "\n") : log_info("{}", text);
}

// While launchers wait for each other, there are no ranks.
Agreement agree(NodeGroup& nodes) {
  const SignalsLetThrough interruptible;
  return nodes.agree();
}

// No rank runs any more. A signal, or a second one, ends the launcher without waiting for others. The report and the
// exit code are as they would have been.
void leave(NodeGroup& nodes, SignalInbox& signals) {
  OutcomeSignal has_left;
  std::thread leaving = start_thread("leaves the job", [&] {
    nodes.leave();
    has_left.publish({});
  });
  std::array<pollfd, 2> events{pollfd{has_left.fd(), POLLIN, 0}, pollfd{signals.fd(), POLLIN, 0}};
  while (!has_left.get()) {
    ::poll(events.data(), events.size(), -1);
    while (const std::optional<int> number = signals.take()) {
      if (!SignalInbox::asks_to_end(*number)) continue;
      log_warning("{} arrived while this launcher was leaving the job: it does not wait for the other launchers",
                  signal_name(*number));
      nodes.abort_leave();
    }
  }
  leaving.join();
}

// The other nodes must not wait for ranks that never ran.
void start(Attempt& ranks, NodeGroup& nodes, SignalInbox& signals, const std::vector<RankPlace>& places) {
  try {
    ranks.start(places);
  } catch (const Error& error) {
    nodes.report_leaving(error.happened());
    leave(nodes, signals);
    throw;
  }
}

}  // namespace

int run_job(const LaunchPlan& plan) {
  fill_standard_descriptors();
  report_withheld_amx();
  if (plan.nodes == 1 && plan.master_port != 0) check_port_is_free(plan.master_port);
  const std::string mark = make_job_mark();
  JobFolder folder(plan.run_id, plan.log_dir, plan.wants_log_files());
  SignalInbox signals;
  adopt_orphans();
  OrphanGuard guard(mark, folder.private_path());
  EventLoop loop;
  const GuardWatch guard_watch(loop, guard);
  Console out(loop, STDOUT_FILENO);
  Console err(loop, STDERR_FILENO);
  SpareRanks spares(loop, guard);
  const UniqueFd memory = make_job_memory();
  const LauncherParts parts{plan, loop, out, err, folder, guard, spares, memory.get()};
  if (plan.log_dir.empty() && !folder.log_path().empty())
    err.write("lockstep run: logs in " + folder.log_path() + "\n");
  const std::unique_ptr<NodeGroup> nodes = [&] {
    const SignalsLetThrough interruptible;
    return make_node_group(plan, folder);
  }();
  const long killed_before = count_out_of_memory_kills();
  const WrittenTrace trace(plan.trace_file);

  for (bool is_first = true;; is_first = false) {
    const Agreement agreement = agree(*nodes);
    if (is_first) show_summary(err, plan, agreement);
    Attempt ranks(parts, *nodes, signals);
    start(ranks, *nodes, signals, places_of(plan, *nodes, agreement, mark, memory.get()));
    ranks.run();
    ranks.clean_up();
    const Deadline shown = Deadline::after(std::chrono::seconds(5));
    out.flush(shown);
    err.flush(shown);
    const std::optional<Outcome>& outcome = ranks.outcome();
    if (!ranks.signal() && !outcome->is_final) continue;
    leave(*nodes, signals);
    err.write(trace.summary());
    err.flush(shown);
    if (ranks.signal()) return 128 + *ranks.signal();
    if (outcome->success) return 0;
    const Error report = failure_report(ranks.ends(), ranks.story_of_other_node(), agreement.restarts,
                                        folder.log_path(), count_out_of_memory_kills() > killed_before);
    const RankEnd* const stop = first_stop(ranks.ends());
    if (stop == nullptr) throw report;
    log_warning("{}", report.what());
    return 128 + stop_signal_of(*stop);
  }
}

}  // namespace lockstep
