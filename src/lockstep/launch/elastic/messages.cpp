#include "lockstep/launch/elastic/messages.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "lockstep/launch/nodes/launcher_message.h"
#include "lockstep/net/server/wills.h"

namespace lockstep {
namespace {

using nlohmann::json;

constexpr const char* kLostMark = "lost ";

template <typename Read>
auto parsed(const std::string& text, Read read) {
  return read_launcher_message(text, "a launcher's message", read);
}

bool has_entry(HostReport::Kind kind) { return kind == HostReport::Kind::Joins || kind == HostReport::Kind::Resumes; }

bool has_ranks(HostReport::Kind kind) { return kind == HostReport::Kind::Resumes || kind == HostReport::Kind::Answers; }

bool has_generation(HostOrder::Kind kind) {
  return kind == HostOrder::Kind::Begin || kind == HostOrder::Kind::Continue || kind == HostOrder::Kind::Note;
}

json ranks_object(const HostReport::Ranks& ranks) {
  return {{"era", ranks.era},
          {"survive", ranks.survive},
          {"has_no_ranks", ranks.has_no_ranks},
          {"succeeded", ranks.succeeded},
          {"next_member", ranks.next_member},
          {"requests", ranks.requests},
          {"asked", ranks.asked},
          {"members", ranks.members}};
}

HostReport::Ranks ranks_of(const json& object) {
  HostReport::Ranks ranks;
  object.at("era").get_to(ranks.era);
  object.at("survive").get_to(ranks.survive);
  object.at("has_no_ranks").get_to(ranks.has_no_ranks);
  object.at("succeeded").get_to(ranks.succeeded);
  object.at("next_member").get_to(ranks.next_member);
  object.at("requests").get_to(ranks.requests);
  object.at("asked").get_to(ranks.asked);
  object.at("members").get_to(ranks.members);
  return ranks;
}

// The texts may contain any bytes that a program wrote.
std::string written(const json& object) { return object.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

HostOrder order_to(HostOrder::Kind kind, const std::string& text, const std::string& fix) {
  HostOrder order;
  order.kind = kind;
  order.text = text;
  order.fix = fix;
  return order;
}

std::string to_text(const HostReport& report) {
  json object{{"kind", static_cast<int>(report.kind)}, {"host", report.host},
              {"generation", report.generation},       {"text", report.text},
              {"blames_a_peer", report.blames_a_peer}, {"recurs", report.recurs}};
  if (report.kind == HostReport::Kind::Gone) object["member"] = report.member;
  if (report.kind == HostReport::Kind::NeedsRank) object["request"] = report.request;
  if (has_entry(report.kind)) object["entry"] = report.entry;
  if (report.kind == HostReport::Kind::Resumes) {
    object["runs"] = report.runs;
    object["restarts"] = report.restarts;
  }
  if (has_ranks(report.kind)) object["ranks"] = ranks_object(report.ranks);
  return written(object);
}

std::string lost_report(const std::string& host) { return kLostMark + host + " "; }

bool is_loss(const HostReport& report) {
  return report.kind == HostReport::Kind::Lost || report.kind == HostReport::Kind::Leaves;
}

bool is_silent_loss(const HostReport& report) {
  return report.kind == HostReport::Kind::Lost && report.text.compare(0, std::strlen(kNotHeardOf), kNotHeardOf) == 0;
}

HostReport parse_report(const std::string& text) {
  HostReport report;
  const std::string mark = kLostMark;
  if (text.compare(0, mark.size(), mark) == 0) {
    const std::size_t end = std::min(text.find(' ', mark.size()), text.size() - 1);
    report.kind = HostReport::Kind::Lost;
    report.host = text.substr(mark.size(), end - mark.size());
    report.text = text.substr(end + 1);
    return report;
  }
  return parsed(text, [&](const json& object) {
    report.kind = static_cast<HostReport::Kind>(object.at("kind").get<int>());
    object.at("host").get_to(report.host);
    object.at("generation").get_to(report.generation);
    object.at("text").get_to(report.text);
    object.at("blames_a_peer").get_to(report.blames_a_peer);
    report.recurs = object.value("recurs", false);
    if (report.kind == HostReport::Kind::Gone) object.at("member").get_to(report.member);
    if (report.kind == HostReport::Kind::NeedsRank) object.at("request").get_to(report.request);
    if (has_entry(report.kind)) report.entry = host_entry_of(object.at("entry"));
    if (report.kind == HostReport::Kind::Resumes) {
      object.at("runs").get_to(report.runs);
      object.at("restarts").get_to(report.restarts);
    }
    if (has_ranks(report.kind)) report.ranks = ranks_of(object.at("ranks"));
    return report;
  });
}

std::string to_text(const HostOrder& order) {
  json object{{"kind", static_cast<int>(order.kind)},
              {"text", order.text},
              {"fix", order.fix},
              {"success", order.success},
              {"has_time", order.has_time},
              {"runs_elsewhere", order.runs_elsewhere},
              {"time_left_ms", order.time_left.count()},
              {"member", order.member}};
  if (order.kind == HostOrder::Kind::Continue) object["members"] = order.members;
  if (has_generation(order.kind)) {
    json hosts = json::array();
    for (const Generation::Host& host : order.generation.hosts) {
      hosts.push_back(
          {{"id", host.id}, {"name", host.name}, {"local_ranks", host.local_ranks}, {"standby", host.standby}});
    }
    object["generation"] = {{"number", order.generation.number},
                            {"restarts", order.generation.restarts},
                            {"master_port", order.generation.master_port},
                            {"first_member", order.generation.first_member},
                            {"era", order.generation.era},
                            {"next_member", order.generation.next_member},
                            {"hosts", hosts}};
  }
  return written(object);
}

HostOrder parse_order(const std::string& text) {
  return parsed(text, [&](const json& object) {
    HostOrder order;
    order.kind = static_cast<HostOrder::Kind>(object.at("kind").get<int>());
    object.at("text").get_to(order.text);
    object.at("fix").get_to(order.fix);
    object.at("success").get_to(order.success);
    object.at("has_time").get_to(order.has_time);
    order.runs_elsewhere = object.value("runs_elsewhere", false);
    order.time_left = std::chrono::milliseconds(object.at("time_left_ms").get<std::int64_t>());
    object.at("member").get_to(order.member);
    if (order.kind == HostOrder::Kind::Continue) object.at("members").get_to(order.members);
    if (!has_generation(order.kind)) return order;
    const json& generation = object.at("generation");
    generation.at("number").get_to(order.generation.number);
    generation.at("restarts").get_to(order.generation.restarts);
    generation.at("master_port").get_to(order.generation.master_port);
    generation.at("first_member").get_to(order.generation.first_member);
    generation.at("era").get_to(order.generation.era);
    generation.at("next_member").get_to(order.generation.next_member);
    for (const json& host : generation.at("hosts")) {
      order.generation.hosts.push_back({host.at("id").get<std::string>(), host.at("name").get<std::string>(),
                                        host.at("local_ranks").get<int>(), host.at("standby").get<std::string>()});
    }
    return order;
  });
}

}  // namespace lockstep
