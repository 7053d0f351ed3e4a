#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/launch/elastic/messages.h"

namespace lockstep {

/// "1 host", "2 hosts"
std::string hosts_text(int count);

/// The hosts of an elastic job, in the order in which they joined, and those that were taken for lost and may return.
/// It answers questions about them, and decides nothing.
class HostTable {
 public:
  using Time = Deadline::Clock::time_point;

  struct Host {
    HostEntry entry;
    Time since;                   ///< when it joined
    bool placed = false;          ///< has a place in the generation
    bool is_member = false;       ///< it was in the newest generation, also while the next one gathers
    bool ready = true;            ///< no rank of it runs
    bool succeeded = false;       ///< all its ranks have
    bool answered = false;        ///< a probe, or how its ranks stand
    bool survives = false;        ///< its ranks survive the loss of others
    bool has_no_ranks = false;    ///< none of them is left that does
    bool is_gone = false;         ///< it was not heard of, or its launcher was killed; it gets no more orders
    bool is_silent = false;       ///< it was not heard of, and may live
    std::int64_t generation = 0;  ///< for one that resumes: of the newest generation that it knows
    std::vector<int> members;     ///< numbers of its processes in this generation
    int requests = 0;             ///< for processes: the newest one that this coordinator knows
    int asked = 0;                ///< while it resumes: processes that the lost host did not grant

    /// A host without ranks, such as one that joins, holds nobody up.
    bool lets_others_continue() const { return !placed || survives || succeeded; }
    /// It has ranks, or had them until they succeeded.
    bool has_state() const { return placed && (succeeded || !has_no_ranks); }
    void note_survival() {
      survives = true;
      has_no_ranks = false;
    }
    /// A host that resumes reports how many requests it has made, and sends those again that it could not send before.
    /// @return  false if the request was known
    bool note_request(int request);
  };

  /// A host that was taken for lost, and has not answered since.
  struct GivenUp {
    Host host;
    std::string story;
    Time since;
  };

  /// @param serving  entry of the host that serves; it is the first one, whenever it comes
  explicit HostTable(HostEntry serving) : serving_(std::move(serving)) {}

  auto begin() { return hosts_.begin(); }
  auto end() { return hosts_.end(); }
  auto begin() const { return hosts_.begin(); }
  auto end() const { return hosts_.end(); }
  bool empty() const { return hosts_.empty(); }
  int count() const { return static_cast<int>(hosts_.size()); }
  template <typename Is>
  bool any(Is is) const {
    return std::any_of(hosts_.begin(), hosts_.end(), is);
  }
  template <typename Is>
  bool all(Is is) const {
    return std::all_of(hosts_.begin(), hosts_.end(), is);
  }
  bool all_ready() const;
  /// How many have a place in the generation.
  int placed() const;
  /// How many of those that resume were in the job; others may have come to join it.
  int resumed() const;
  /// Those with a place, by node rank.
  std::vector<Generation::Host> places() const;

  /// The host of this id, or null.
  Host* find(const std::string& id);
  const Host* find(const std::string& id) const;
  bool has_serving() const { return find(serving_.id) != nullptr; }
  Host& add(Host host);
  /// Takes out a host that is in the table.
  Host remove(const std::string& id);
  /// @return  the one after it
  std::list<Host>::iterator erase(std::list<Host>::iterator host) { return hosts_.erase(host); }
  void clear() { hosts_.clear(); }

  /// The host's name, with the launcher's process if another launcher is on the same host.
  std::string name_of(const HostEntry& entry) const;
  /// "host-a, host-b and 3 more". @param placed_alone  of those with a place
  std::string names(bool placed_alone = false) const;

  /// Notes a host that is still in the table as lost: it may live, behind a link that is down.
  void give_up(Host& host, const std::string& story, bool is_silent, Time now);
  /// Takes the entry of a host that was given up, and answers, out of the list of these; nothing if it is not there.
  std::optional<GivenUp> take_back(const std::string& id);
  /// It has answered, and is taken back later.
  void forget_silence(const std::string& id);
  /// Hosts that are silent for each other may be cut off from each other: only one part may continue. More than half
  /// of the hosts take the rendezvous over; half of them, if the serving host is among them, keep it. Hosts that wait
  /// for a place, or for the next generation, do not count: those that take over do not know them.
  /// @param keep_alive  a host that is silent for longer is lost
  bool may_be_cut_off(Time now, std::chrono::milliseconds keep_alive) const;

 private:
  HostEntry serving_;
  std::list<Host> hosts_;
  std::vector<GivenUp> given_up_;
};

}  // namespace lockstep
