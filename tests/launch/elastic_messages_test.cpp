// Messages between launchers: any text is understood, or refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/launch/elastic/messages.h"
#include "lockstep/launch/nodes/host_entry.h"

namespace lockstep {
namespace {

TEST(ElasticMessages, SayWhatWasMeant) {
  HostReport report;
  report.kind = HostReport::Kind::Failed;
  report.host = "ab12";
  report.generation = 7;
  report.text = "rank 3 failed\n  \xff bytes";
  report.blames_a_peer = true;
  report.recurs = true;
  const HostReport read = parse_report(to_text(report));
  EXPECT_EQ(read.kind, report.kind);
  EXPECT_EQ(read.host, "ab12");
  EXPECT_EQ(read.generation, 7);
  EXPECT_EQ(read.text.substr(0, 13), "rank 3 failed");
  EXPECT_TRUE(read.blames_a_peer);
  EXPECT_TRUE(read.recurs);

  HostReport resumed;
  resumed.kind = HostReport::Kind::Resumes;
  resumed.runs = true;
  resumed.restarts = 3;
  resumed.entry.standby = "tcp:10.0.0.2:1234";
  resumed.ranks = {2, true, true, true, 9, 4, 1, {3, 8}};
  const HostReport back = parse_report(to_text(resumed));
  EXPECT_TRUE(back.runs);
  EXPECT_EQ(back.restarts, 3);
  EXPECT_EQ(back.entry.standby, "tcp:10.0.0.2:1234");
  EXPECT_EQ(back.ranks.era, 2);
  EXPECT_TRUE(back.ranks.survive && back.ranks.has_no_ranks && back.ranks.succeeded);
  EXPECT_EQ(back.ranks.next_member, 9);
  EXPECT_EQ(back.ranks.requests, 4);
  EXPECT_EQ(back.ranks.asked, 1);
  EXPECT_EQ(back.ranks.members, (std::vector<int>{3, 8}));

  resumed.kind = HostReport::Kind::Answers;
  EXPECT_TRUE(parse_report(to_text(resumed)).ranks.survive);
  HostReport needs;
  needs.kind = HostReport::Kind::NeedsRank;
  needs.request = 5;
  EXPECT_EQ(parse_report(to_text(needs)).request, 5);
  HostReport gone;
  gone.kind = HostReport::Kind::Gone;
  gone.member = 8;
  EXPECT_EQ(parse_report(to_text(gone)).member, 8);

  HostOrder order;
  order.kind = HostOrder::Kind::Begin;
  order.generation = {4, 1, {{"ab12", "host-a", 2, ""}, {"cd34", "host-b", 3, "tcp:10.0.0.2:1234"}}, 29511, 7, 2, 9};
  const HostOrder begin = parse_order(to_text(order));
  EXPECT_EQ(begin.generation.number, 4);
  EXPECT_EQ(begin.generation.restarts, 1);
  EXPECT_EQ(begin.generation.master_port, 29511);
  ASSERT_EQ(begin.generation.hosts.size(), 2U);
  EXPECT_EQ(begin.generation.hosts[1].name, "host-b");
  EXPECT_EQ(begin.generation.hosts[1].local_ranks, 3);
  EXPECT_EQ(begin.generation.hosts[1].standby, "tcp:10.0.0.2:1234");
  EXPECT_EQ(begin.generation.first_member, 7);
  EXPECT_EQ(begin.generation.era, 2);
  EXPECT_EQ(begin.generation.next_member, 9);
  order.kind = HostOrder::Kind::Continue;
  order.members = {3, 8};
  EXPECT_EQ(parse_order(to_text(order)).generation.era, 2);
  EXPECT_EQ(parse_order(to_text(order)).members, (std::vector<int>{3, 8}));
  order.kind = HostOrder::Kind::Note;
  EXPECT_EQ(parse_order(to_text(order)).generation.hosts.size(), 2U);

  HostOrder grant = order_to(HostOrder::Kind::Member);
  EXPECT_EQ(parse_order(to_text(grant)).member, -1);
  grant.member = 9;
  EXPECT_EQ(parse_order(to_text(grant)).member, 9);
}

TEST(ElasticMessages, AreCompletedByTheStoreForALostHost) {
  const HostReport report = parse_report(lost_report("ab12") + "connection closed");
  EXPECT_EQ(report.kind, HostReport::Kind::Lost);
  EXPECT_EQ(report.host, "ab12");
  EXPECT_EQ(report.text, "connection closed");
  EXPECT_EQ(parse_report(lost_report("ab12")).text, "");
}

TEST(ElasticMessages, OfAnotherVersionKeepTheirName) {
  const HostReport report = parse_report(R"({"kind":0,"host":"x","generation":0,"text":"","blames_a_peer":false,)"
                                         R"("entry":{"id":"x","name":"host-x","version":"9.9"}})");
  EXPECT_EQ(report.entry.name, "host-x");
  EXPECT_EQ(report.entry.version, "9.9");
}

TEST(ElasticMessages, ThatAreNoneAreRefused) {
  for (const char* text : {"", "{", "[]", "lost", "{\"kind\": 1}"}) {
    EXPECT_THROW(parse_report(text), Error) << text;
    EXPECT_THROW(parse_order(text), Error) << text;
  }
}

// An integer cannot hold them, and C++ does not define what it gets.
TEST(ElasticMessages, WithFractionsAreRefused) {
  for (const char* number : {"1e300", "0.5", "1.0"}) {
    const std::string rest = R"(,"host":"x","generation":0,"text":"","blames_a_peer":false})";
    EXPECT_THROW(parse_report(R"({"kind":)" + std::string(number) + rest), Error) << number;
    EXPECT_THROW(parse_host_entry(R"({"id":"x","name":"host-x","pid":)" + std::string(number) + "}"), Error) << number;
  }
}

// So that the fuzzer reaches what is read of each.
TEST(ElasticMessages, OfEachKindAreASeedOfTheFuzzTarget) {
  std::set<int> reports, orders;
  const std::string folder = std::string(LOCKSTEP_SOURCE_DIR) + "/fuzz/seeds/elastic_message";
  for (const auto& seed : std::filesystem::directory_iterator(folder)) {
    const std::string name = seed.path().filename(), text = read_file(seed.path());
    if (name == "lost" || name.rfind("report_", 0) == 0) reports.insert(static_cast<int>(parse_report(text).kind));
    if (name.rfind("order_", 0) == 0) orders.insert(static_cast<int>(parse_order(text).kind));
  }
  for (int kind = 0; kind <= static_cast<int>(HostReport::Kind::Lost); ++kind)
    EXPECT_EQ(reports.count(kind), 1U) << kind;
  for (int kind = 0; kind <= static_cast<int>(HostOrder::Kind::End); ++kind) EXPECT_EQ(orders.count(kind), 1U) << kind;
}

}  // namespace
}  // namespace lockstep
