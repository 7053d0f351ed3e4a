#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/launch/nodes/host_entry.h"

namespace lockstep {

/// A host's report to the coordinator.
struct HostReport {
  enum class Kind {
    Joins,       ///< with `entry`
    Ready,       ///< no rank of the host runs any more: a new generation may begin
    Failed,      ///< a rank of the host failed: `text` describes the failure
    Succeeded,   ///< all ranks of the host have succeeded
    Answers,     ///< answers a probe, or an order to tell, with `ranks`
    Survives,    ///< the ranks of the host survive the loss of others; also: it has such a rank again
    HasNoRanks,  ///< the host has lost its last rank that survives others: `text` describes how
    Resumes,     ///< on the store that takes over from a lost one: the host was in the job, with `entry`
    NeedsRank,   ///< asks for the number of a process that takes a lost rank's place
    Leaves,      ///< leaves for good: `text` gives the reason
    Gone,        ///< process `member` of the host has ended: `text` describes how
    Returns,     ///< answers the order of this name, and will not take the rendezvous over
    Moved,       ///< of a host of another launcher: the job is served at `text`, after its host was lost
    Lost         ///< written for the host by the store: `text` is the cause
  };
  Kind kind = Kind::Joins;
  std::string host;             ///< id of the host
  std::int64_t generation = 0;  ///< of the generation that the report is about
  std::string text;
  bool blames_a_peer = false;  ///< for Failed: the rank reported that it had lost another one
  bool recurs = false;         ///< for Failed: the ranks would fail alike if they were started again
  bool runs = false;           ///< for Resumes: its ranks run, or start
  int restarts = 0;            ///< for Resumes: as of the newest generation that it knows
  int member = -1;             ///< for Gone
  int request = 0;             ///< for NeedsRank: its number among the host's requests in this generation, from 1 on
  HostEntry entry;
  struct Ranks {
    std::int64_t era = 0;       ///< how many stores they have lost
    bool survive = false;       ///< the loss of others
    bool has_no_ranks = false;  ///< none of them is left that does
    bool succeeded = false;     ///< all have
    int next_member = 0;        ///< no process that the host knows of has this number, or a higher one
    int requests = 0;           ///< for processes that take lost ranks' places
    int asked = 0;              ///< how many of these have no answer
    std::vector<int> members;   ///< numbers of the processes that run
  };
  Ranks ranks;  ///< for Resumes and Answers
};

/// A start of the ranks of all hosts, which continues while hosts join and leave if ranks survive others. Several
/// worlds of ranks (net/worlds/) may follow each other in one generation.
struct Generation {
  struct Host {
    std::string id;
    std::string name;
    int local_ranks = 1;
    std::string standby;  ///< as HostEntry::standby
  };
  std::int64_t number = 0;  ///< of earlier generations; grows with each, whatever the reason
  int restarts = 0;         ///< number of restarts after failures
  std::vector<Host> hosts;  ///< by node rank; the first one serves the store
  std::uint16_t master_port = 0;
  int first_member = -1;  ///< of a host that joins ranks that run: the number of its first process; else -1
  std::int64_t era = 0;   ///< how many stores its ranks have lost
  int next_member = 0;    ///< the number of the next process that joins
};

/// The coordinator's order to a host.
struct HostOrder {
  enum class Kind {
    Wait,      ///< `text` names what for, `time_left` is the longest wait
    Begin,     ///< start the ranks of `generation`
    Stop,      ///< end the ranks, and report Ready: `text` gives the reason
    Probe,     ///< answer
    Tell,      ///< answer how the ranks stand: whether they survive the loss of others by now
    Member,    ///< start process number `member` in a lost rank's place; -1: no restart is left
    Continue,  ///< on the store that takes over from a lost one: the ranks of `generation` continue; `members` are all
               ///< of them
    Note,      ///< `text` says what has happened to other hosts, while the ranks continue; `generation` has their hosts
    Move,      ///< join the job at the address `text`
    Return,    ///< answer, because the host was taken for lost: Rejoin follows, unless this coordinator's host was cut
               ///< off
    Rejoin,    ///< end the ranks, and join again: the host was taken for lost
    Refuse,    ///< the host cannot join: `text` gives the reason, `fix` what to do
    End        ///< the job is over: it succeeded, or `text` describes the failure
  };
  Kind kind = Kind::Wait;
  std::string text;
  std::string fix;
  bool success = false;                    ///< for End: the job succeeded
  bool has_time = false;                   ///< for Stop: nothing has failed, so the ranks may save their state
  bool runs_elsewhere = false;             ///< for End: the job may continue on other hosts, without this one
  std::chrono::milliseconds time_left{0};  ///< for Wait
  int member = -1;                         ///< for Member
  std::vector<int> members;                ///< for Continue
  Generation generation;
};

HostOrder order_to(HostOrder::Kind kind, const std::string& text = {}, const std::string& fix = {});

std::string to_text(const HostReport& report);
std::string to_text(const HostOrder& order);
/// @throws Error  if `text` is not such a message
HostReport parse_report(const std::string& text);
HostOrder parse_order(const std::string& text);

/// The start of a Lost report; the store appends the cause.
std::string lost_report(const std::string& host);
/// Whether the host is lost, or has left.
bool is_loss(const HostReport& report);
/// Whether the host was not heard of, and may live.
bool is_silent_loss(const HostReport& report);

}  // namespace lockstep
