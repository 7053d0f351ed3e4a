#include "lockstep/trace/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFirstTrackOfReplicas = 500;
constexpr int kFirstTrackOfBuckets = 1000;

std::string name_of_track(int track) {
  if (track >= kFirstTrackOfBuckets) return fmt::format("bucket {}", track - kFirstTrackOfBuckets);
  if (track >= kFirstTrackOfReplicas) return fmt::format("device {}", track - kFirstTrackOfReplicas);
  return fmt::format("thread {}", track);
}

std::string name_of(const TraceEvent& event, const TraceNames& names) {
  switch (event.kind) {
    case TraceKind::Data:
      return "data";
    case TraceKind::Forward:
      return "forward";
    case TraceKind::Backward:
      return "backward";
    case TraceKind::Update:
      return "update";
    case TraceKind::Bucket:
      return fmt::format("bucket {}", event.bucket);
    case TraceKind::BucketUpdate:
      return fmt::format("update bucket {}", event.bucket);
    case TraceKind::Wait:
      return fmt::format("wait for bucket {}", event.bucket);
    case TraceKind::Collective:
      return names.operation(event.operation);
    case TraceKind::Replica:
      return kReplicaParts.at(event.operation % kReplicaParts.size());
  }
  return "unknown";
}

/// Writes the events one by one, because a JSON object of all would need many times their memory.
class ChromeWriter {
 public:
  ChromeWriter(const JobTimeline& timeline, const TraceNames& names) : timeline_(timeline), names_(names) {}

  std::string write(const Json& about) {
    text_ =
        "{\"displayTimeUnit\": \"ms\", \"otherData\": " + about.dump(1, ' ', false, Json::error_handler_t::replace) +
        ", \"traceEvents\": [\n";
    for (const RankTrace& rank : timeline_.ranks()) write_rank(rank);
    if (text_.back() == '\n' && text_[text_.size() - 2] == ',') text_.erase(text_.size() - 2, 1);
    return text_ + "]}\n";
  }

 private:
  void write_rank(const RankTrace& rank) {
    add({{"name", "process_name"},
         {"ph", "M"},
         {"pid", rank.rank},
         {"args", {{"name", fmt::format("rank {}, {}", rank.rank, rank.host)}}}});
    add({{"name", "process_sort_index"}, {"ph", "M"}, {"pid", rank.rank}, {"args", {{"sort_index", rank.rank}}}});
    std::set<int> tracks;
    for (const TraceEvent& event : rank.record.events) {
      tracks.insert(track_of(event));
      write_event(rank.rank, event);
    }
    for (const int track : tracks) {
      add({{"name", "thread_name"},
           {"ph", "M"},
           {"pid", rank.rank},
           {"tid", track},
           {"args", {{"name", name_of_track(track)}}}});
      add({{"name", "thread_sort_index"},
           {"ph", "M"},
           {"pid", rank.rank},
           {"tid", track},
           {"args", {{"sort_index", track}}}});
    }
  }

  static int track_of(const TraceEvent& event) {
    if (event.kind == TraceKind::Bucket) return kFirstTrackOfBuckets + event.bucket;
    return event.kind == TraceKind::Replica ? kFirstTrackOfReplicas + event.bucket : event.thread;
  }

  void write_event(int rank, const TraceEvent& event) {
    Json args{{"step", event.step}};
    if (event.bucket >= 0) args[event.kind == TraceKind::Replica ? "device" : "bucket"] = event.bucket;
    if (event.bytes > 0) args["bytes"] = event.bytes;
    if (event.dtype >= 0) args["dtype"] = names_.dtype(event.dtype);
    const Meeting* meeting = timeline_.meeting_of(event);
    if (meeting != nullptr) args["last_rank"] = meeting->last_rank;
    if (meeting != nullptr && event.kind != TraceKind::Bucket) {
      args["waited_for_last_ms"] = static_cast<double>(timeline_.waited_for_last_ns(rank, event)) / 1e6;
    }
    span(rank, track_of(event), name_of(event, names_), event.begin_ns, event.end_ns, args);
    if (event.kind == TraceKind::Bucket) write_parts(rank, event, meeting);
  }

  // Ready, launched, all ranks there, done.
  void write_parts(int rank, const TraceEvent& event, const Meeting* meeting) {
    const std::int64_t all_there =
        meeting == nullptr ? event.launch_ns : std::clamp(meeting->last_ns, event.launch_ns, event.end_ns);
    const int track = track_of(event);
    const Json args{{"step", event.step}, {"bucket", event.bucket}};
    if (event.launch_ns > event.begin_ns) span(rank, track, "ready", event.begin_ns, event.launch_ns, args);
    if (all_there > event.launch_ns) {
      span(rank, track, fmt::format("waits for rank {}", meeting->last_rank), event.launch_ns, all_there, args);
    }
    span(rank, track, "transfer", all_there, event.end_ns, args);
  }

  void span(int rank, int track, const std::string& name, std::int64_t begin_ns, std::int64_t end_ns,
            const Json& args) {
    const auto us = [](std::int64_t ns) { return static_cast<double>(ns) / 1e3; };
    add({{"name", name},
         {"ph", "X"},
         {"pid", rank},
         {"tid", track},
         {"ts", us(begin_ns - timeline_.start_ns())},
         {"dur", us(end_ns - begin_ns)},
         {"args", args}});
  }

  void add(const Json& event) { text_ += event.dump(-1, ' ', false, Json::error_handler_t::replace) + ",\n"; }

  const JobTimeline& timeline_;
  const TraceNames& names_;
  std::string text_;
};

}  // namespace

std::string chrome_trace_of(const JobTimeline& timeline, const TraceSummary& summary, const TraceNotes& notes) {
  Json about{{"program", "Lockstep"},
             {"world_size", notes.world_size},
             {"asked_steps", {notes.window.first, notes.window.last}},
             {"steps", {summary.first_step, summary.last_step}},
             {"complete", notes.missing.empty()},
             {"missing", notes.missing},
             {"clocks", Json::array()},
             {"summary", summary.lines()},
             {"ranks", Json::array()}};
  for (const RankTrace& rank : timeline.ranks()) {
    about["clocks"].push_back({{"rank", rank.rank},
                               {"host", rank.host},
                               {"offset_us", static_cast<double>(rank.clock.offset_ns) / 1e3},
                               {"error_us", static_cast<double>(rank.clock.error_ns) / 1e3},
                               {"dropped_events", rank.record.dropped}});
  }
  for (const RankSummary& rank : summary.ranks) {
    about["ranks"].push_back({{"rank", rank.rank},
                              {"data_ms", rank.data_ms},
                              {"forward_ms", rank.forward_ms},
                              {"backward_ms", rank.backward_ms},
                              {"update_ms", rank.update_ms},
                              {"waited_ms", rank.waited_ms},
                              {"awaited_ms", rank.awaited_ms},
                              {"hidden_share", rank.hidden_share ? Json(*rank.hidden_share) : Json()}});
  }
  if (summary.most_awaited >= 0) about["most_awaited_rank"] = summary.most_awaited;
  return ChromeWriter(timeline, notes.names).write(about);
}

}  // namespace lockstep
