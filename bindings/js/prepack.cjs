// Builds the addon of this platform for `npm pack`. RESTITCH_PROFILE names another profile than `release`.
'use strict'

const { execFileSync } = require('node:child_process')
const { copyFileSync, mkdirSync } = require('node:fs')
const { join } = require('node:path')

const root = join(__dirname, '..', '..')
const profile = process.env.RESTITCH_PROFILE ?? 'release'
const messages = execFileSync(
  'cargo',
  ['build', '--locked', '--package', 'restitch-js', '--profile', profile, '--message-format', 'json-render-diagnostics'],
  { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28, stdio: ['ignore', 'pipe', 'inherit'] },
)
const artifacts = messages.split('\n').filter(Boolean).map((line) => JSON.parse(line))
const [addon] = artifacts.find(({ target }) => target?.name === 'restitch_js').filenames
const isMusl = process.platform === 'linux' && !process.report.getReport().header.glibcVersionRuntime

mkdirSync(join(__dirname, 'native'), { recursive: true })
copyFileSync(addon, join(__dirname, 'native', `restitch.${process.platform}-${process.arch}${isMusl ? '-musl' : ''}.node`))
for (const license of ['LICENSE-APACHE', 'LICENSE-MIT']) copyFileSync(join(root, license), join(__dirname, license))
