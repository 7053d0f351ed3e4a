// The rules of an elastic job whose ranks survive the loss of others.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/launch/elastic/coordinator.h"

namespace lockstep {

// Whether the ranks that are left continue by themselves. A host without ranks, such as one that joins, holds nobody
// up.
bool Coordinator::goes_on() const {
  const auto lets_others_go_on = [](const Host& host) { return !host.placed || host.survives || host.succeeded; };
  const auto has_state = [](const Host& host) { return host.placed && (host.succeeded || !host.bereft); };
  return phase_ == Phase::Running && std::all_of(hosts_.begin(), hosts_.end(), lets_others_go_on) &&
         std::any_of(hosts_.begin(), hosts_.end(), has_state);
}

void Coordinator::go_on_without(const Host& lost, const std::string& what) {
  // The ranks of a host that leaves may still end well.
  if (lost.is_gone) lost_.push_back({worlds_, lost.entry.name, what, lost.members});
  note(what + "; the ranks of the other hosts continue");
  let_in_who_waits();
  end_if_all_succeeded();
}

// The host's launcher lives, and may ask for a process that joins the others.
void Coordinator::bereave(Host& host, const std::string& story, Time now) {
  host.survives = host.bereft = true;
  if (phase_ != Phase::Running) return;
  if (!goes_on()) return fail(story, now);
  end_if_all_succeeded();
}

// A host that resumes reports how many requests it has made, and sends those again that it could not send before.
// @return  false if the request was known
bool Coordinator::note_request(Host& host, const HostReport& report) {
  if (report.request <= host.requests) return false;
  host.requests = report.request;
  return true;
}

// As a restart does, it uses up one of --max-restarts.
void Coordinator::grant_member(Host& host) {
  HostOrder order = order_to(HostOrder::Kind::Member);
  if (goes_on() && restarts_ < job_.max_restarts) {
    ++restarts_;
    order.member = next_member_++;
    host.members.push_back(order.member);
  }
  send(host, std::move(order));
}

void Coordinator::take_members(Host& host) {
  host.members.clear();
  for (int i = 0; i < host.entry.local_ranks; ++i) host.members.push_back(next_member_++);
}

void Coordinator::let_in(Host& host) {
  host.placed = host.survives = host.bereft = true;
  host.ready = host.succeeded = false;
  take_members(host);
  HostOrder order = order_to(HostOrder::Kind::Begin);
  order.world.generation = worlds_;
  order.world.restarts = restarts_;
  order.world.hosts = places();
  order.world.first_member = host.members.front();
  order.world.era = era_;
  order.world.next_member = next_member_;
  send(host, std::move(order));
  note(fmt::format("host {} joined; its ranks join the running ones", name_of(host.entry)), host.entry.id);
}

void Coordinator::let_in_who_waits() {
  for (Host& host : hosts_) {
    if (!host.placed && placed() < job_.max_nodes) let_in(host);
  }
}

void Coordinator::note(const std::string& text, const std::string& except) {
  HostOrder order = order_to(HostOrder::Kind::Note, text);
  order.world.hosts = places();
  order.world.era = era_;
  order.world.next_member = next_member_;
  for (const Host& host : hosts_) {
    if (host.placed && host.entry.id != except) send(host, order);
  }
}

std::vector<World::Host> Coordinator::places() const {
  std::vector<World::Host> places;
  for (const Host& host : hosts_) {
    if (!host.placed) continue;
    places.push_back({host.entry.id, name_of(host.entry), host.entry.local_ranks, host.entry.standby});
  }
  return places;
}

}  // namespace lockstep
