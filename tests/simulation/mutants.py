#!/usr/bin/env python3
"""Shows that the checks of the ranks' and launchers' agreement can fail: breaks it in one place after the other.

    python3 tests/simulation/mutants.py SOURCE BUILD [--seeds N] [--limit SECONDS] [--only PATTERN]

For each mutant a source file is changed, compiled and linked with the programs that may notice: the simulator, then the
tests of net/worlds, or the tests of launchers. While those of hosts run, the build folder's lockstep has the mutant.
Exits with 1 if nothing notices a mutant.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mutant_build import Look, Mutant, look_for, parse_flags  # noqa: E402

WORLDS = "src/lockstep/net/worlds/"
AGREEMENT, MEMBER, WORLD, STANDING = (
    WORLDS + name for name in ("world_agreement.cpp", "world_member.cpp", "world.cpp", "member_standing.cpp"))
STORE, ENTRANCE = WORLDS + "moving_store.cpp", WORLDS + "enter_job.cpp"
TAKEOVER, SURVIVAL, RULES, HOSTS = (
    "src/lockstep/launch/elastic/" + name
    for name in ("rules/takeover_rules.cpp", "rules/survival_rules.cpp", "coordinator.cpp", "rules/host_table.cpp"))
STATE = "src/lockstep/launch/elastic/rules/job_state.cpp"

# (what is wrong then, file, what stands there, what stands there instead)
AGREEMENT_OF_RANKS = [
    ("the last proposal counts, not the first", AGREEMENT,
     'store_->compare_set(world_key(step.world.number), "", encode(step.world));',
     "store_->set(world_key(step.world.number), encode(step.world));"),
    ("a member that meets does not look for a newer world", AGREEMENT, "if (values.front()) return {};", ""),
    ("a member that meets does not look for losses", AGREEMENT, "if (world.rank_of(lost) >= 0) return {};",
     "(void)lost;"),
    ("one member that is ready counts as all", AGREEMENT, "if (meeting.late.empty()) return",
     "if (meeting.late.size() < values.size()) return"),
    ("a rank that has slept gives others up before it looks again", AGREEMENT, "if (is_last) return meeting;",
     "if (deadline.passed()) return meeting;"),
    ("a silent rank counts as lost", AGREEMENT, "if (!lost.silent) gone.insert(lost.rank);", "gone.insert(lost.rank);"),
    ("a rank that has left is awaited", AGREEMENT, "i < left->size();) {", "i > left->size();) {"),
    ("a rank that leaves overwrites others that left", AGREEMENT,
     "before.empty() ? std::to_string(self_.global_rank) : ", "true ? std::to_string(self_.global_rank) : "),
    ("a rank that was given up counts as there", AGREEMENT, "std::set<int> gone = given_up_;", "std::set<int> gone;"),
    ("requests count as settled at the first look", AGREEMENT, "if (all_are_settled) settled_ = asked;",
     "settled_ = asked;"),
    ("a request that is not complete counts as settled", AGREEMENT, "const bool is_settled = peer && (",
     "const bool is_settled = !peer || ("),
    ("a process that asks to join looks at the first world alone", AGREEMENT, "      ++world;\n", ""),
    ("a member proposes although nothing has changed", WORLD, "if (changes) step.kind", "step.kind"),
    ("the lost are proposed again", WORLD, "if (view.gone.count(peer.global_rank) == 0) ", ""),
    ("a rank that stands still is not given up", MEMBER,
     "if (is_late && cause.rank >= 0) give_up(cause.rank);", ""),
    ("a rank that was given up is not ended", MEMBER, "peer.pid != self_.pid) links_.end_process",
     "peer.pid < 0) links_.end_process"),
    ("a failed connection is not tried again", MEMBER, "agreement_.next(world_, true, false,",
     "agreement_.next(world_, false, false,"),
    ("a rank that does not arrive is not given up", MEMBER, "    give_up(late.global_rank);\n", ""),
    ("a rank that was given up once counts so forever", MEMBER, "agreement_.heard_of(world_);", ""),
    ("a member that fails does not end its connections", MEMBER, "  links_.disconnect();\n  for (world_ =",
     "  for (world_ ="),
    ("the first rank gives its state, however old", STANDING, "standing.source = static_cast<int>(rank);", ""),
    ("members that differ count as equal", STANDING, "standing.all_equal && members[rank]", "true || members[rank]"),
]

IN_A_NEW_STORE = [
    ("the last proposal counts in a new store, not the first", AGREEMENT,
     'store_->compare_set(world_key(first.number), "", encode(first));',
     "store_->set(world_key(first.number), encode(first));"),
    ("the first rank in a new store awaits nobody", AGREEMENT, "if (missing.empty() || is_last) {", "if (true) {"),
    ("the lost are awaited in a new store", AGREEMENT, "if (!told[i] && gone.count(numbers[i]) == 0) missing",
     "if (!told[i]) missing"),
    ("the lost are in the first world of a new store", AGREEMENT,
     "if (!told[i] || gone.count(numbers[i]) != 0) continue;", "if (!told[i]) continue;"),
    ("a process that is let in is not awaited in a new store", AGREEMENT,
     'if (era_ > 0) store_->set(here_key(self_.global_rank), "");', ""),
    ("a process that is let in misses the first world of a new store", AGREEMENT,
     "first_number_of(era_) + (era_ > 0 ? 0 : 1)", "first_number_of(era_) + 1"),
    ("a process that asks to join looks at the lost store's worlds", AGREEMENT, "first_number_of(era_) + (era_ > 0 ? 0 : 1)",
     "1"),
    ("requests that the lost store had settled count as settled", AGREEMENT, "  settled_ = 0;\n", ""),
    ("a rank that was given up before counts so in a new store", AGREEMENT, "given_up_.clear();", ""),
    ("a member does not report the world that it knows", AGREEMENT,
     "store_->set(here_key(self_.global_rank), encode(current));", 'store_->set(here_key(self_.global_rank), "");'),
    ("the oldest world counts in a new store", WORLD, "std::max_element(known.begin()",
     "std::min_element(known.begin()"),
    ("a rank that is not there is in the first world of a new store", WORLD,
     "if (here.count(peer.global_rank) != 0) ", ""),
    ("worlds of a new store have the numbers of the lost one", WORLD, "first.number = first_number_of(era);",
     "first.number = 1;"),
    ("a rank that does not arrive in a new store is not ended", MEMBER, "    give_up(each.global_rank);\n", ""),
    ("a member ignores that the store is lost while it is let in", MEMBER,
     "    form(agreement_.wait_for_admission(Deadline::never()));\n  } catch (const StoreLostError&) {\n"
     "    follow_store();",
     "    form(agreement_.wait_for_admission(Deadline::never()));\n  } catch (const StoreLostError&) {\n    throw;"),
    ("a member ignores that the store is lost while it lets others in", MEMBER,
     "Deadline::after(kUntilTheStoreKnows)));\n  } catch (const StoreLostError&) {\n    follow_store();",
     "Deadline::after(kUntilTheStoreKnows)));\n  } catch (const StoreLostError&) {\n    throw;"),
    ("a member ends if the next store is lost, too", MEMBER, "      continue;\n    }\n    throw;", "    }\n    throw;"),
    ("a process without a world calls the roll", MEMBER,
     "if (world_.members.empty()) return agreement_.wait_for_admission(Deadline::never());", ""),
]

# How a process finds the store: a spare or a process that has just joined may look where it was.
WHERE_THE_STORE_IS = [
    ("a process that reached the lost store takes it for the newest", STORE,
     "era_ = is_there ? newest->era : newest->era - 1;", "era_ = newest->era;"),
    ("a process that reached the lost store stays there", STORE, "if (!is_there) take_news(*newest);", ""),
    ("the word of an earlier move counts again", STORE, "newest->era <= era_ || (news_", "false || (news_"),
    ("requests to the lost store are not given up", STORE,
     'client()->abandon("the job\'s store is at " + move.address + " now");', ""),
    ("a process follows before its group has ended", STORE, "  if (on_move_) on_move_();\n  {", "  {"),
    ("a process gives up if the host of the news is lost, too", STORE, "if (deadline.passed()) throw;\n      log_info",
     "throw;\n      log_info"),
    ("a process of another group follows", STORE, "if (entered.round != round_) {", "if (false) {"),
    ("a process keeps the era of the lost store", STORE, "    era_ = move.era;\n", ""),
    ("a process that starts looks only where it was told", ENTRANCE,
     "const auto newest = file ? read_store_move(*file) : std::nullopt;",
     "const std::optional<StoreMove> newest;"),
    ("a process that starts gives up if nobody answers", ENTRANCE, "if (deadline.passed()) throw;\n    } catch",
     "throw;\n    } catch"),
    ("a process that starts gives up if the store is lost as it enters", ENTRANCE,
     "if (!file || deadline.passed()) throw;", "throw;"),
]

# Launchers: who serves the store, with which hosts.
WHO_TAKES_OVER = [
    ("the era that a host knows does not count", TAKEOVER,
     "state.era = std::max(state.era, report.ranks.era + 1);", ""),
    ("numbers of processes that a host knows are given again", TAKEOVER,
     "state.next_member = std::max(state.next_member, report.ranks.next_member);", ""),
    ("restarts that a host knows do not count", TAKEOVER,
     "state.restarts = std::max(state.restarts, report.restarts);", ""),
    ("a newer generation that a host knows does not count", TAKEOVER,
     "state.generation = std::max(state.generation, report.generation);", ""),
    ("the host that serves is not the first one of the generation", HOSTS,
     "const bool serves = host.entry.id == serving_.id;", "const bool serves = false;"),
    ("the host that serves is not awaited", TAKEOVER, "&& state.hosts.has_serving();", ";"),
    ("a report of an older generation counts", TAKEOVER, "if (report.generation != host.generation) return;", ""),
    ("ranks that end while hosts are awaited count as running", TAKEOVER, "      host.placed = false;\n", ""),
    ("ranks that announce their survival late are not known", TAKEOVER,
     "      return host.note_survival();", "      return;"),
    ("a host that loses its ranks meanwhile counts as with ranks", TAKEOVER,
     "      host.has_no_ranks = true;\n      return;",
     "      return;"),
    ("ranks that succeed meanwhile are awaited", TAKEOVER, "      host.succeeded = true;\n      return;",
     "      return;"),
    ("ranks that fail meanwhile count as survivors", TAKEOVER, "      host.survives = false;\n      return;",
     "      return;"),
    ("a request counts twice", TAKEOVER, "if (host.note_request(report.request)) ++host.asked;", "++host.asked;"),
    ("a process that ends meanwhile is awaited", TAKEOVER,
     "state.lost.push_back({host.generation, host.entry.name, report.text, {report.member}});", ""),
    ("others are not awaited once a quorum is there", TAKEOVER,
     "if (!has_quorum || (resumed < takeover.hosts && !had_time)) return;", "if (!has_quorum) return;"),
    ("others are awaited forever", TAKEOVER, "now >= state.began + kForTheRest;", "false;"),
    ("a part without a quorum continues", TAKEOVER, "resumed >= takeover.quorum && state", "state"),
    ("a part without a quorum waits forever", TAKEOVER, "if (!has_quorum && now >= state.began + kToMeet) {",
     "if (false) {"),
    ("a host that joins counts for the quorum", HOSTS, "return host.generation > 0;", "return true;"),
    ("ranks of an older generation continue", TAKEOVER, "if (!host->placed || host->generation == state.generation) {",
     "if (true) {"),
    ("ranks are started again although they survive", TAKEOVER,
     "if (survival_rules::survive(state)) return continue_here(state);", ""),
    ("the ranks are told another era", STATE, "  running.era = era;\n", ""),
    ("the hosts are not told the next number", STATE, "  running.next_member = next_member;\n", ""),
    ("the hosts are not told the restarts", STATE, "  running.restarts = restarts;\n", ""),
    ("the roll has the first host's ranks alone", TAKEOVER,
     "if (host.placed) order.members.insert", "if (host.placed && order.members.empty()) order.members.insert"),
    ("what the lost host did not grant is forgotten", TAKEOVER,
     "for (; host.asked > 0; --host.asked) survival_rules::grant_member(state, host);", "host.asked = 0;"),
    ("hosts that came meanwhile wait forever", TAKEOVER,
     "  survival_rules::admit_who_waits(state);\n  restart_rules::end_if_all_succeeded(state);\n}\n\nvoid send",
     "  restart_rules::end_if_all_succeeded(state);\n}\n\nvoid send"),
    ("a job whose ranks have all succeeded does not end", TAKEOVER,
     "  survival_rules::admit_who_waits(state);\n  restart_rules::end_if_all_succeeded(state);\n}\n\nvoid send",
     "  survival_rules::admit_who_waits(state);\n}\n\nvoid send"),
    ("hosts that begin elsewhere stay there", TAKEOVER,
     "if (state.phase == Phase::Gathering && state.generation == 0) {",
     "if (false) {"),
    ("ranks at the lost endpoint run on", TAKEOVER,
     "if (state.phase == Phase::Over) return;\n  state.end(\n", "return;\n  state.end(\n"),
    ("half of the hosts are silent, and the others continue", HOSTS, "  return count_if(hosts_, is_here)",
     "  return false && count_if(hosts_, is_here)"),
    ("hosts that were silent long ago count", HOSTS,
     "each.host.is_silent && now <= each.since + 2 * keep_alive", "each.host.is_silent"),
    ("hosts that wait for a place count against silent ones", HOSTS, "return host.is_member && !host.is_gone;",
     "return !host.is_gone;"),
    ("hosts that were killed count as silent", HOSTS, "each.host.is_silent && now <=", "now <="),
    ("a host that was given up is not asked to return", STATE,
     "  send(host, order_to(HostOrder::Kind::Return));\n", ""),
    ("a host that returned counts as silent", HOSTS, "  given_up_.erase(found);\n", ""),
    ("a host that was cut off sends others away", TAKEOVER,
     "  if (state.is_cut_off) return;\n", ""),
    ("a host that is lost meanwhile is awaited", TAKEOVER,
     "if (lost.generation > 0) --state.takeover->hosts;", ""),
    ("a stranger that is lost meanwhile counts as a host of the job", TAKEOVER,
     "if (lost.generation > 0) --state.takeover->hosts;", "--state.takeover->hosts;"),
    ("ranks that have joined without a report are not asked for", SURVIVAL,
     "each.survives && (some_are_left || !each.has_no_ranks);", "each.survives;"),
    ("hosts without ranks are asked although others have some", SURVIVAL, "(some_are_left || !each.has_no_ranks);",
     "!each.has_no_ranks;"),
    ("a report while hosts are asked says nothing of ranks that joined", SURVIVAL,
     "if (report.kind == ReportKind::Survives) host.note_survival();",
     "if (report.kind == ReportKind::Survives) host.survives = true;"),
    ("a host is lost before the others are known to be heard", SURVIVAL,
     "  if (must_ask_all_before(state, report)) return true;\n", ""),
    ("hosts that are known to survive are taken for heard", SURVIVAL, "state.asking.whom != Whom::All && ((host",
     "((host"),
    ("silence is taken in its turn", SURVIVAL,
     "    std::stable_partition(others, deferred.end(), is_silent_loss);\n", "    (void)others;\n"),
    ("a host that was cut off waits for all answers", SURVIVAL,
     "is_decided = is_decided || state.may_be_cut_off(now);", ""),
    ("the end of the serving launcher waits for all answers", SURVIVAL, "is_decided = ends_the_job(state, report);",
     "is_decided = false;"),
    ("a host that returns while others are asked counts as silent", SURVIVAL,
     "  if (report.kind == ReportKind::Returns) state.hosts.forget_silence(report.host);\n", ""),
    ("a host that falls silent while others are asked is not asked about", SURVIVAL,
     "state.phase != Phase::Running || state.asking.whom == Whom::All",
     "state.phase != Phase::Running || state.asking.whom != Whom::Nobody"),
    ("ranks of a host that was cut off have time to save", RULES, 'may continue without this one", true)',
     'may continue without this one", false)'),
    ("a request counts again in a new store", HOSTS, "if (request <= requests) return false;", ""),
]

CONNECTIONS = [
    ("ranks end if nobody is lost and a message stands still", MEMBER, "if (!may_repeat) std::rethrow_exception",
     "std::rethrow_exception"),
    ("ranks make new connections forever", MEMBER,
     "bool may_repeat = repeats_ < kMostRepeats;", "bool may_repeat = true;"),
    ("a rank ended the group, and the others make new connections", MEMBER, "      may_repeat = false;\n", ""),
]

MOVES, NODES = "src/lockstep/launch/elastic/server_side.cpp", "src/lockstep/launch/elastic/elastic_nodes.cpp"
# Launchers: how they notice that the store is lost, and tell their ranks. Real hosts, whose links go down.
HOW_IT_MOVES = [
    ("a host that does not answer counts as ended", MOVES,
     "    } catch (const Error&) {\n      return false;\n    }\n  }\n}",
     "    } catch (const Error&) {\n      return true;\n    }\n  }\n}"),
    ("a host that was given up takes over", MOVES,
     "if (!takeover.is_possible() || (returns && !has_ended)) return false;",
     "if (!takeover.is_possible()) return false;"),
    ("a host gives the serving one up as soon as that gives it up", MOVES, "kTimeToBeTakenBack{2}",
     "kTimeToBeTakenBack{0}"),
    ("the ranks do not learn where the store is", NODES, "    write_store_move(store_file_, move);\n", ""),
    ("a launcher forgets the era", NODES, "  state_.standing.note_era(order.generation.era);\n", ""),
    ("the roll that the ranks get is empty", NODES, "  move.roll.insert(order.members.begin(), order.members.end());\n",
     ""),
]


def mutants(seeds):
    simulator = Look("survival_simulator", ["--seeds", str(seeds)])
    in_worlds = Look("net_test", ["--gtest_filter=World*:NextStep*:FirstWorld*:StandingOf*", "--gtest_fail_fast"])
    of_store = Look("net_test", ["--gtest_filter=Moving*", "--gtest_fail_fast"])
    of_launchers = Look("launch_test", ["--gtest_filter=Coordinator*:HostTable*", "--gtest_fail_fast"])
    of_hosts = Look("e2e_launcher_test", ["--gtest_filter=Elastic.GoesOn*:ElasticHosts*:SurvivingLinks*:SurvivingHosts."
                                          "GoOnIfOneServingHost*", "--gtest_fail_fast"], starts="lockstep")
    holding = Look("survival_simulator", ["--seeds", str(seeds), "--hold"])
    found = []
    for rows, looks in ((CONNECTIONS, [holding, in_worlds]), (AGREEMENT_OF_RANKS, [simulator, in_worlds]),
                        (IN_A_NEW_STORE, [simulator, in_worlds]), (WHERE_THE_STORE_IS, [of_store]),
                        (WHO_TAKES_OVER, [of_launchers]), (HOW_IT_MOVES, [of_hosts])):
        found += [Mutant(*row, looks) for row in rows]
    return found


if __name__ == "__main__":
    flags = parse_flags(__doc__, seeds=20000)
    sys.exit(look_for(flags, mutants(flags.seeds)))
