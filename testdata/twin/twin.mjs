// Runs discord-digital-twin, a peer that other people wrote in Discord's place, for the tests of cmd/bobbin. Each line of standard
// input is a JSON object {"do": …}, each is answered by one line; the end of the input ends the program.
import { createInterface } from 'node:readline'
import { Server } from 'node:net'

// The twin listens on every interface; a test listens on this machine alone.
const listen = Server.prototype.listen
Server.prototype.listen = function (port, ...rest) {
  return typeof port === 'number' ? listen.call(this, port, '127.0.0.1', ...rest) : listen.call(this, port, ...rest)
}

const { DigitalDiscord } = await import('discord-digital-twin')
const users = { ann: '200000000000000001', bob: '200000000000000002' }
const channel = '300000000000000001'
const bot = '100000000000000001'
const twin = new DigitalDiscord({
  botUser: { id: bot, username: 'bobbin' },
  botToken: Buffer.from(bot).toString('base64url') + '.aaaaaa.' + 'b'.repeat(38),
  guild: { id: '400000000000000001', name: 'Twin', ownerId: users.bob },
  users: Object.entries(users).map(([username, id]) => ({ username, id })),
  channels: [{ id: channel, name: 'general', type: 0 }],
})
await twin.start()

// It leaves out whom a message mentions, which Discord always says.
const broadcast = twin.server.gateway.broadcast.bind(twin.server.gateway)
twin.server.gateway.broadcast = (event, data) => {
  if (event === 'MESSAGE_CREATE' && data.content?.includes(`<@${bot}>`)) {
    data = { ...data, mentions: [{ id: bot, username: 'bobbin', bot: true }] }
  }
  broadcast(event, data)
}

const place = (m) => ({ channelId: channel, userId: users[m.user] })
const answered = async ({ id }) => {
  const row = await twin.channel(channel).waitForInteractionAck({ interactionId: id })
  return { type: row.type, data: row.data ? JSON.parse(row.data) : null, message: row.messageId }
}

const verbs = {
  messages: () => twin.channel(channel).getMessages(),
  commands: async () => {
    const rows = await twin.prisma.applicationCommand.findMany()
    return rows.map((c) => ({ name: c.name, options: JSON.parse(c.options) }))
  },
  say: (m) => twin.simulateUserMessage({ ...place(m), content: m.text.replaceAll('@bot', `<@${bot}>`) }),
  slash: async (m) => answered(await twin.simulateSlashCommand({ ...place(m), name: 'mcp', options: m.options })),
  complete: async (m) => answered(await twin.simulateInteraction({ ...place(m), type: 4, data: { id: '1', name: 'mcp', type: 1, options: m.options } })),
  press: async (m) => answered(await twin.simulateButtonClick({ ...place(m), messageId: m.message, customId: m.custom })),
  submit: async (m) => answered(await twin.simulateModalSubmit({ ...place(m), customId: m.custom, fields: m.fields })),
}

const tell = (o) => process.stdout.write(JSON.stringify(o) + '\n')
tell({ ok: { base: twin.restUrl, token: twin.botToken, bot } })
for await (const line of createInterface({ input: process.stdin })) {
  try {
    const m = JSON.parse(line)
    tell({ ok: (await verbs[m.do](m)) ?? null })
  } catch (e) {
    tell({ error: String(e?.message ?? e) })
  }
}
process.exit(0)
