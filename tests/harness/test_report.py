"""The report, read back with the parsers of browsers, mail and spreadsheets."""

import base64
import csv
import io
import json
import re
import shutil
import subprocess

import html5lib
import matplotlib

matplotlib.use('Agg')
import matplotlib.pyplot as plt
import numpy as np
import pytest

from jaxlab.errors import UserError
from jaxlab.harness import report, report_results

DASH, MINUS = '\N{EN DASH}', '\N{MINUS SIGN}'
HOSTILE = '</script><script>alert("x")</script><img src=x onerror=alert(1)>&\'|'


def claim(verdict='holds', **changes):
  return {
    'text': 'B3 has a lower simple regret than sequential halving.',
    'paper': 'Hwang & Park 2026, Fig. 2',
    'measured': -0.01234,
    'low': -0.0151,
    'high': -0.0098,
    'threshold': 0.0,
    'sense': '<',
    'unit': 'points',
    'holds': verdict == 'holds',
    'verdict': verdict,
    'note': '',
    **changes,
  }


def csv_text(rows):
  text = io.StringIO()
  csv.writer(text).writerows(rows)
  return text.getvalue()


REGRET = [
  ['method', 'budget', 'regret', 'seconds'],
  ['b3', 1000, 0.051234567, 1.5],
  ['bsh, refreshed', 1000, 0.0612, float('nan')],
  ['uniform', 30000, 0.123, 0.25],
]


def make_figure(path, color='#1f4fbf', size=(6.4, 4.0)):
  fig, ax = plt.subplots(figsize=size, dpi=100)
  budget = np.geomspace(1e3, 3e4, 30)
  for k, name in enumerate(['B3', 'SH', 'uniform']):
    ax.loglog(budget, (1 + k) * budget**-0.5, label=name)
  ax.set(xlabel='budget (pulls)', ylabel='simple regret')
  ax.title.set_color(color)
  ax.legend()
  path.parent.mkdir(exist_ok=True)
  fig.savefig(path)
  plt.close(fig)


def make_workdir(path, *, claims=None, tables=None, finished=True, **changes):
  path.mkdir(parents=True)
  identity = {
    'experiment': 'bandits/model_selection',
    'title': 'Picking the best of 4,096 classifiers',
    'mode': '',
    'seed': 7,
    **changes,
  }
  environment = {
    'jax': '0.10.2',
    'device': 'cpu',
    'revision': '0123456789abcdef0123456789abcdef01234567',
    'dirty': False,
    'seed': 7,
    'command': ['jaxlab', 'run', 'bandits/model_selection', '--x=a b'],
  }
  config = {'budget': 4000, 'env': {'sigma': 0.25, 'tail': None}}
  record = {**identity, 'config': config, 'environment': environment}
  (path / 'config.json').write_text(json.dumps(record))
  make_figure(path / 'figures' / 'regret.png')
  (path / 'tables').mkdir()
  for name, rows in ({'regret': REGRET} if tables is None else tables).items():
    (path / 'tables' / f'{name}.csv').write_text(csv_text(rows))
  if finished:
    summary = {
      **identity,
      'wall_seconds': 125.0,
      'headline': [
        {
          'name': 'Regret of B3',
          'value': 0.0512,
          'low': 0.0489,
          'high': 0.0535,
          'unit': 'points',
        }
      ],
      'claims': [claim()] if claims is None else claims,
      'tables': [{'name': 'regret', 'caption': 'Simple regret by method'}],
      'figures': [{'name': 'regret', 'caption': 'Regret over the budget'}],
    }
    (path / 'summary.json').write_text(json.dumps(summary))
    (path / 'DONE').write_text('')
  return path


def parse(path):
  """Returns the tree; strict mode raises on the first parse error."""
  parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
  return parser.parse(path.read_text('utf-8'))


def text_of(node):
  return ' '.join(''.join(node.itertext()).split())


def uri_bytes(uri):
  return base64.b64decode(uri.partition(';base64,')[2])


@pytest.fixture(name='run')
def run_fixture(tmp_path):
  return make_workdir(tmp_path / 'run')


def test_page_is_one_valid_file_without_outside_references(run, tmp_path):
  out = report.write_report([run], tmp_path / 'new' / 'report.html')
  tree = parse(out)
  urls = [
    node.get(name)
    for node in tree.iter()
    for name in ('src', 'href')
    if node.get(name)
  ]
  assert urls
  assert all(url.startswith(('data:', '#')) for url in urls)
  ids = [node.get('id') for node in tree.iter() if node.get('id')]
  assert len(ids) == len(set(ids))
  assert {url[1:] for url in urls if url.startswith('#')} <= set(ids)
  labels = [node.get('aria-labelledby') for node in tree.iter()]
  assert set(filter(None, labels)) <= set(ids)
  assert len(tree.findall('.//h1')) == 1
  assert not (set(out.parent.iterdir()) - {out})


def test_figure_and_table_are_carried_byte_for_byte(run, tmp_path):
  tree = parse(report.write_report([run], tmp_path / 'report.html'))
  image = tree.find('.//figure/img')
  figure = (run / 'figures' / 'regret.png').read_bytes()
  assert uri_bytes(image.get('src')) == figure
  assert image.get('alt') == 'Regret over the budget'
  assert (image.get('width'), image.get('height')) == ('640', '400')
  link = tree.find('.//a[@download]')
  assert link.get('download') == 'regret.csv'
  table = (run / 'tables' / 'regret.csv').read_bytes()
  assert uri_bytes(link.get('href')) == table


def test_table_shows_aligned_numbers_and_a_dash_for_nan(run, tmp_path):
  tree = parse(report.write_report([run], tmp_path / 'report.html'))
  table = tree.find(".//table[@class='sortable']")
  rows = [[text_of(cell) for cell in row] for row in table.find('tbody')]
  assert rows == [
    ['b3', '1000', '0.0512', '1.500'],
    ['bsh, refreshed', '1000', '0.0612', DASH],
    ['uniform', '30000', '0.1230', '0.250'],
  ]
  values = [
    [cell.get('data-value') for cell in row] for row in table.find('tbody')
  ]
  assert float(values[0][2]) == 0.051234567
  assert values[1][3] is None
  kinds = [head.get('class') for head in table.find('thead/tr')]
  assert kinds == [None, 'number', 'number', 'number']


def test_provenance_and_command_are_there(run, tmp_path):
  tree = parse(report.write_report([run], tmp_path / 'report.html'))
  command = text_of(tree.find('.//pre/code'))
  assert command == "jaxlab run bandits/model_selection '--x=a b'"
  pairs = {
    text_of(row.find('th')): text_of(row.find('td'))
    for table in tree.iterfind(".//table[@class='pairs']")
    for row in table.iter('tr')
  }
  assert pairs['budget'] == '4000'
  assert pairs['env.sigma'] == '0.25'
  assert pairs['env.tail'] == DASH
  assert pairs['jax'] == '0.10.2'
  facts = text_of(tree.find(".//dl[@class='facts']"))
  assert '2 min 05 s' in facts
  assert '0123456789ab' in facts


def test_hostile_words_stay_words(tmp_path):
  run = make_workdir(
    tmp_path / 'run',
    title=HOSTILE,
    experiment=HOSTILE,
    mode=HOSTILE,
    claims=[claim(text=HOSTILE, paper=HOSTILE, unit=HOSTILE, note=HOSTILE)],
    tables={'regret': [[HOSTILE, 'n'], [HOSTILE, 1]]},
  )
  out = report.write_report([run, run], tmp_path / 'report.html')
  tree = parse(out)
  scripts = list(tree.iter('script'))
  assert len(scripts) == 1
  assert not any(
    name.startswith('on') for n in tree.iter() for name in n.attrib
  )
  assert len(list(tree.iter('img'))) == 2
  shown = [text_of(node) for node in tree.iter('td')]
  assert shown.count(HOSTILE) >= 2
  results = report_results.write_results(
    [run], tmp_path / 'RESULTS.md'
  ).read_text()
  assert '<script' not in re.sub(r'\\<', '', results)
  *_, row = results.splitlines()
  assert len(re.findall(r'(?<!\\)\|', row)) == 11


def test_csp_hashes_are_those_of_the_content(run, tmp_path):
  tree = parse(report.write_report([run], tmp_path / 'report.html'))
  policy = tree.find('.//meta[@http-equiv]').get('content')
  for tag in ('script', 'style'):
    content = tree.find(f'.//{tag}').text
    done = subprocess.run(
      ['openssl', 'dgst', '-sha256', '-binary'],
      input=content.encode(),
      capture_output=True,
      check=True,
    )
    assert f"'sha256-{base64.b64encode(done.stdout).decode()}'" in policy


@pytest.mark.parametrize(
  ('verdicts', 'line'),
  [
    (['holds'] * 5 + ['undecided'], '5 of 6 claims hold, 1 undecided'),
    (['holds'], '1 of 1 claim holds'),
    (
      ['fails', 'holds', 'undecided'],
      '1 of 3 claims hold, 1 fails, 1 undecided',
    ),
    (['fails', 'fails'], '0 of 2 claims hold, 2 fail'),
    ([], 'No claim measured'),
  ],
)
def test_verdict_line(tmp_path, verdicts, line):
  run = make_workdir(tmp_path / 'run', claims=[claim(v) for v in verdicts])
  tree = parse(report.write_report([run], tmp_path / 'report.html'))
  assert text_of(tree.find(".//p[@class='verdict-line']")) == line
  badges = [
    text_of(node)
    for node in tree.iter('span')
    if (node.get('class') or '').startswith('badge')
  ]
  assert badges == verdicts


def test_several_runs_get_an_index_and_an_unfinished_one_counts_not(tmp_path):
  good = make_workdir(tmp_path / 'good', claims=[claim(), claim('fails')])
  live = make_workdir(tmp_path / 'live', finished=False, title='Still going')
  metrics = '{"step": 10, "loss": 0.5}\n{"step": 20, "loss": null}\n{"st'
  (live / 'metrics.jsonl').write_text(metrics)
  (live / 'tables' / '.tmp-1-half.csv').write_text('a\n1\n')
  tree = parse(report.write_report([good, live], tmp_path / 'report.html'))
  line = text_of(tree.find(".//p[@class='verdict-line']"))
  assert line == '1 of 2 claims hold, 1 fails, 1 run unfinished'
  index = tree.find(".//section[@id='index']")
  finished, unfinished = index.findall('.//tbody/tr')
  assert text_of(finished[1]).count('holds:') == 1
  assert text_of(unfinished[1]) == 'unfinished'
  article = tree.find(".//article[@id='run-2']")
  assert 'Still going' in text_of(article)
  assert 'half' not in text_of(article)
  assert article.find('.//figure/img') is not None
  assert text_of(article).endswith(f'step20 loss{DASH}')
  links = [link.get('href') for link in tree.find('.//nav').iter('a')]
  assert links == ['#index', '#run-1', '#run-2']


def test_verdicts_of_test_mode_are_marked_as_such(tmp_path):
  full = make_workdir(tmp_path / 'full', mode='full', claims=[claim()])
  tiny = make_workdir(tmp_path / 'tiny', mode='test', claims=[claim()] * 2)
  tree = parse(report.write_report([full, tiny], tmp_path / 'report.html'))
  line = text_of(tree.find(".//p[@class='verdict-line']"))
  assert line == '3 of 3 claims hold, 2 measured in test mode'
  assert 'Test mode' not in text_of(tree.find(".//article[@id='run-1']"))
  assert 'Test mode' in text_of(tree.find(".//article[@id='run-2']"))


def test_record_with_bare_entries_is_shown(run, tmp_path):
  (run / 'config.json').write_text('{"later": 1}')
  summary = {'claims': [{'text': 'Bare.'}], 'headline': [{'name': 'n'}]}
  (run / 'summary.json').write_text(json.dumps(summary))
  tree = parse(report.write_report([run, run], tmp_path / 'report.html'))
  entry = text_of(tree.find(".//li[@class='claim']"))
  assert entry == 'undecided Bare. not measured no threshold'
  assert text_of(tree.find(".//dl[@class='headline']")) == f'n{DASH}'
  results = report_results.write_results(
    [run], tmp_path / 'RESULTS.md'
  ).read_text()
  assert results.endswith(f'| undecided | default | {DASH} | {DASH} |\n')


def test_summary_without_done_is_unfinished(run, tmp_path):
  (run / 'DONE').unlink()
  tree = parse(report.write_report([run], tmp_path / 'report.html'))
  line = text_of(tree.find(".//p[@class='verdict-line']"))
  assert line == 'No claim measured, 1 run unfinished'


def test_long_table_is_cut_but_its_download_is_whole(tmp_path):
  rows = [['i', 'x'], *([i, i / 7] for i in range(1234))]
  run = make_workdir(tmp_path / 'run', tables={'empty': [], 'all': rows})
  tree = parse(report.write_report([run], tmp_path / 'report.html'))
  table = tree.find(".//table[@class='sortable']")
  assert len(table.findall('tbody/tr')) == 200
  assert 'first 200 of 1,234 rows' in text_of(tree.find('.//main'))
  links = {a.get('download'): a for a in tree.iterfind('.//a[@download]')}
  content = uri_bytes(links['all.csv'].get('href')).decode()
  assert len(list(csv.reader(io.StringIO(content)))) == 1235


def test_results_is_a_table_with_one_row_a_claim(tmp_path):
  good = make_workdir(tmp_path / 'a', claims=[claim(), claim('undecided')])
  live = make_workdir(tmp_path / 'b', finished=False, mode='full')
  path = report_results.write_results([good, live], tmp_path / 'RESULTS.md')
  lines = path.read_text().splitlines()
  assert lines[2] == '1 of 2 claims hold, 1 undecided, 1 run unfinished.'
  rows = [
    [cell.strip() for cell in line.split('|')[1:-1]] for line in lines[4:]
  ]
  assert {len(row) for row in rows} == {10}
  assert set(rows[1]) == {'---'}
  assert rows[2] == [
    r'bandits/model\_selection',
    'B3 has a lower simple regret than sequential halving.',
    'Hwang & Park 2026, Fig. 2',
    f'{MINUS}0.0123 points',
    rf'\[{MINUS}0.0151, {MINUS}0.0098\]',
    r'\< 0 points',
    'holds',
    'default',
    'cpu',
    '0123456789ab',
  ]
  assert [row[6] for row in rows[2:]] == ['holds', 'undecided', 'unfinished']
  assert rows[4][7] == 'full'


def test_results_of_other_experiments_stay(tmp_path):
  path = tmp_path / 'RESULTS.md'
  odd = claim() | {'text': r'a | b \ [c]'}
  old = make_workdir(tmp_path / 'a', claims=[odd, claim('fails')])
  _rename(old, 'motifs/spectra_theory')
  report_results.write_results([old], path)
  before = path.read_text().splitlines()[-2:]
  new = make_workdir(tmp_path / 'b', claims=[claim('undecided')])
  report_results.write_results([new], path)
  lines = path.read_text().splitlines()
  assert lines[2] == '1 of 3 claims hold, 1 fails, 1 undecided.'
  assert lines[-2:] == before and 'undecided' in lines[-3]
  # Measured anew, its rows are replaced.
  again = make_workdir(tmp_path / 'c', claims=[claim()])
  _rename(again, 'motifs/spectra_theory')
  report_results.write_results([again], path)
  lines = path.read_text().splitlines()
  assert lines[2] == '1 of 2 claims hold, 1 undecided.' and len(lines) == 8
  path.write_text('| a | b |\n| --- | --- |\n')
  with pytest.raises(UserError, match='other columns'):
    report_results.write_results([again], path)
  assert path.read_text().startswith('| a | b |')


def _rename(workdir, name):
  for file in workdir.rglob('*.json'):
    text = file.read_text()
    file.write_text(text.replace('bandits/model_selection', name))


def test_bad_input_is_named(run, tmp_path):
  out = tmp_path / 'report.html'
  with pytest.raises(UserError, match='at least one'):
    report.write_report([], out)
  with pytest.raises(UserError, match=r'absent.*config\.json'):
    report.write_report([run, tmp_path / 'absent'], out)
  (tmp_path / 'empty').mkdir()
  with pytest.raises(UserError, match='empty is not a workdir'):
    report_results.write_results([tmp_path / 'empty'], out)
  (run / 'summary.json').write_text('{"claims": [')
  with pytest.raises(UserError, match=r'summary\.json'):
    report.write_report([run], out)
  (run / 'summary.json').write_text('{}')
  (run / 'tables' / 'regret.csv').write_text('a,b\n1,"' + 'x' * 200_000)
  with pytest.raises(UserError, match=r'regret\.csv'):
    report.write_report([run], out)
  assert not out.exists()


def test_output_that_cannot_be_written_is_named(run, tmp_path):
  (tmp_path / 'file').write_text('')
  with pytest.raises(UserError, match=r'file/report\.html'):
    report.write_report([run], tmp_path / 'file' / 'report.html')
  with pytest.raises(UserError, match='run'):
    report.write_report([run], run)


@pytest.mark.slow
def test_chromium_runs_the_page_without_complaint(tmp_path):
  names = ('chromium', 'chromium-browser', 'google-chrome')
  browser = next(filter(None, map(shutil.which, names)), None)
  if browser is None:
    pytest.skip('no Chromium on this machine')
  runs = [
    make_workdir(tmp_path / 'a', claims=[claim(text=HOSTILE), claim('fails')]),
    make_workdir(tmp_path / 'b', finished=False),
  ]
  out = report.write_report(runs, tmp_path / 'report.html')
  done = subprocess.run(
    [
      browser,
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      f'--user-data-dir={tmp_path / "profile"}',
      '--enable-logging=stderr',
      '--v=0',
      '--virtual-time-budget=2000',
      '--dump-dom',
      out.as_uri(),
    ],
    capture_output=True,
    text=True,
    timeout=120,
    check=True,
  )
  assert 'CONSOLE' not in done.stderr
  # The script ran to its end: each of its three kinds of control is there.
  assert done.stdout.count('class="sort"') == 6 + 2 * 4
  assert done.stdout.count('class="enlarge"') == 2
  assert done.stdout.count('>Copy</button>') == 2
