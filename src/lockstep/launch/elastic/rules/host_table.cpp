#include "lockstep/launch/elastic/rules/host_table.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/text/count_of.h"

namespace lockstep {
namespace {

constexpr int kMostNames = 16;

template <typename Is>
int count_if(const std::list<HostTable::Host>& hosts, Is is) {
  return static_cast<int>(std::count_if(hosts.begin(), hosts.end(), is));
}

}  // namespace

std::string hosts_text(int count) { return count_of(count, "host"); }

bool HostTable::Host::note_request(int request) {
  if (request <= requests) return false;
  requests = request;
  return true;
}

bool HostTable::all_ready() const {
  return all([](const Host& host) { return host.ready; });
}

int HostTable::placed() const {
  return count_if(hosts_, [](const Host& host) { return host.placed; });
}

int HostTable::resumed() const {
  return count_if(hosts_, [](const Host& host) { return host.generation > 0; });
}

std::vector<Generation::Host> HostTable::places() const {
  std::vector<Generation::Host> places;
  for (const Host& host : hosts_) {
    if (!host.placed) continue;
    places.push_back({host.entry.id, name_of(host.entry), host.entry.local_ranks, host.entry.standby});
  }
  return places;
}

HostTable::Host* HostTable::find(const std::string& id) { return const_cast<Host*>(std::as_const(*this).find(id)); }

const HostTable::Host* HostTable::find(const std::string& id) const {
  for (const Host& host : hosts_) {
    if (host.entry.id == id) return &host;
  }
  return nullptr;
}

HostTable::Host& HostTable::add(Host host) {
  const bool serves = host.entry.id == serving_.id;
  return *hosts_.insert(serves ? hosts_.begin() : hosts_.end(), std::move(host));
}

HostTable::Host HostTable::remove(const std::string& id) {
  const auto host = std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& each) { return each.entry.id == id; });
  Host removed = std::move(*host);
  hosts_.erase(host);
  return removed;
}

std::string HostTable::name_of(const HostEntry& entry) const {
  const auto shares = [&](const HostEntry& other) { return other.name == entry.name && other.id != entry.id; };
  const bool shared = shares(serving_) || any([&](const Host& host) { return shares(host.entry); });
  return shared ? entry.label() : entry.name;
}

std::string HostTable::names(bool placed_alone) const {
  std::string text;
  int told = 0;
  int more = 0;
  for (const Host& host : hosts_) {
    if (placed_alone && !host.placed) continue;
    if (told == kMostNames) {
      ++more;
      continue;
    }
    text += (told++ == 0 ? "" : ", ") + name_of(host.entry);
  }
  return more == 0 ? text : fmt::format("{} and {} more", text, more);
}

void HostTable::give_up(Host& host, const std::string& story, bool is_silent, Time now) {
  host.is_silent = is_silent;
  given_up_.push_back({host, story, now});
  host.is_gone = true;
}

std::optional<HostTable::GivenUp> HostTable::take_back(const std::string& id) {
  const auto found =
      std::find_if(given_up_.begin(), given_up_.end(), [&](const GivenUp& each) { return each.host.entry.id == id; });
  if (found == given_up_.end()) return std::nullopt;
  GivenUp back = std::move(*found);
  given_up_.erase(found);
  return back;
}

void HostTable::forget_silence(const std::string& id) {
  for (GivenUp& each : given_up_) {
    if (each.host.entry.id == id) each.host.is_silent = false;
  }
}

bool HostTable::may_be_cut_off(Time now, std::chrono::milliseconds keep_alive) const {
  const auto is_silent = [&](const GivenUp& each) {
    return each.host.is_member && each.host.is_silent && now <= each.since + 2 * keep_alive;
  };
  const auto is_here = [](const Host& host) { return host.is_member && !host.is_gone; };
  return count_if(hosts_, is_here) < std::count_if(given_up_.begin(), given_up_.end(), is_silent);
}

}  // namespace lockstep
