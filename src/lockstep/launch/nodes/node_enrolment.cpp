#include "lockstep/launch/nodes/node_enrolment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/launch/launcher_name.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostMissing = 16;

// The queue for launchers that ended while others were still awaited: their ids, each with the cause.
std::string queue_of_gone(int node) { return "launcher/gone/" + std::to_string(node); }
std::string node_key(int node) { return "launcher/node/" + std::to_string(node); }

}  // namespace

std::string attempt_key(int attempt, const std::string& what) {
  return "launcher/attempt/" + std::to_string(attempt) + "/" + what;
}

void NodeEnrolment::claim_rank(bool serves) {
  const std::string own = nlohmann::json(self_).dump();
  const std::string gone = queue_of_gone(node_rank_);
  std::string stands = client_.compare_set(node_key(node_rank_), "", own);
  if (stands != own && !has_begun() && last_in(gone) == parse_host_entry(stands).id) {
    stands = client_.compare_set(node_key(node_rank_), stands, own);
  }
  if (stands != own) {
    throw Error(fmt::format("two launchers claim node rank {}: this one, and that on {}", node_rank_,
                            parse_host_entry(stands).label()),
                at_launcher("rendezvous"),
                "give each node its own --node-rank, from 0 to nnodes-1, and each job an endpoint of its own");
  }
  if (!serves) client_.set_will(gone, self_.id + " ", plan_.keep_alive);
}

bool NodeEnrolment::has_begun() {
  return client_.try_get(attempt_key(0, "ready/" + std::to_string(node_rank_))).has_value();
}

// The first word of the newest text in that queue; empty if the queue is empty.
std::string NodeEnrolment::last_in(const std::string& queue) {
  const auto count = client_.try_get(queue);
  const std::string text = count ? client_.try_get(queue + "/" + *count).value_or("") : "";
  return text.substr(0, text.find(' '));
}

void NodeEnrolment::await_all(WaitNotice& notice) {
  const Deadline deadline = Deadline::after(plan_.join_timeout);
  for (int node = 0; node < plan_.nodes; ++node) {
    notice.begin([this, node] { return "waiting for " + missing_nodes(node); }, deadline);
    HostEntry peer;
    try {
      peer = parse_host_entry(client_.get(node_key(node), deadline));
    } catch (const TimeoutError&) {
      throw TimeoutError(
          fmt::format("{} did not join within {} s", missing_nodes(node),
                      std::chrono::duration<double>(plan_.join_timeout).count()),
          at_launcher("rendezvous at " + client_.address().text()),
          "start it with the same --master-addr and --master-port, or raise --rdzv-conf timeout=SECONDS");
    }
    if (const auto reason = difference(peer, self_)) {
      throw Error(fmt::format("nodes {} and {} differ: {}", node, node_rank_, *reason), at_launcher("rendezvous"),
                  "start every node with the same program and flags, and each job with a port of its own");
    }
  }
  notice.end();
}

void NodeEnrolment::check_still_there(int node) {
  const auto text = client_.try_get(node_key(node));
  if (!text) return;
  const HostEntry peer = parse_host_entry(*text);
  if (last_in(queue_of_gone(node)) != peer.id) return;
  throw Error(fmt::format("the launcher of node {} on {} ended before all nodes had joined", node, peer.label()),
              at_launcher("rendezvous"), "read its output; start the job again");
}

// "node 3 of 4", "nodes 1, 3 of 4": the nodes from `from` on that have not joined.
std::string NodeEnrolment::missing_nodes(int from) {
  std::vector<int> missing;
  int more = 0;
  for (int node = from; node < plan_.nodes; ++node) {
    if (node != from && client_.try_get(node_key(node))) continue;
    if (missing.size() < kMostMissing) {
      missing.push_back(node);
    } else {
      ++more;
    }
  }
  return fmt::format("node{} {}{} of {}", missing.size() == 1 ? "" : "s", fmt::join(missing, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "", plan_.nodes);
}

}  // namespace lockstep
